#!/usr/bin/env bash
# pki.sh FOLDER NODE_NAME NODE_IP API_SERVICE_IP CLUSTER_IP: a certificate authority, certificates and kubeconfigs for one cluster.
set -euo pipefail
folder=$1 node_name=$2 node_ip=$3 api_ip=$4 cluster_ip=$5
mkdir -p "$folder"
cd "$folder"
umask 077

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
cert() { # cert NAME SUBJECT EXTENSIONS
  key "$1"
  openssl req -new -key "$1.key" -subj "$2" -out "$1.csr"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -out "$1.crt" \
    -extfile <(printf '%s\n' "$3") 2>/dev/null
  rm "$1.csr"
}

key ca
openssl req -x509 -new -key ca.key -subj /CN=bucketingest-devcluster -days 3650 -out ca.crt \
  -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature 2>/dev/null
service=kubernetes.default.svc
cert apiserver /CN=kube-apiserver "extendedKeyUsage=serverAuth
subjectAltName=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:$service,DNS:$service.cluster.local,IP:127.0.0.1,IP:$node_ip,IP:$api_ip,IP:$cluster_ip"
client=extendedKeyUsage=clientAuth
cert admin /O=system:masters/CN=admin $client
cert controllers /CN=system:kube-controller-manager $client
cert scheduler /CN=system:kube-scheduler $client
cert proxy /CN=system:kube-proxy $client
cert kubelet "/O=system:nodes/CN=system:node:$node_name" $client
cert kubelet-serving "/O=system:nodes/CN=system:node:$node_name" "extendedKeyUsage=serverAuth
subjectAltName=DNS:$node_name,IP:$node_ip,IP:$cluster_ip"
cert apiserver-kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client $client
openssl genrsa -out sa.key 2048 2>/dev/null
openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null

for user in admin controllers scheduler proxy kubelet; do
  cat >"$user.kubeconfig" <<END
apiVersion: v1
kind: Config
current-context: devcluster
clusters: [{name: devcluster, cluster: {server: "https://$node_ip:6443", certificate-authority-data: $(base64 -w0 ca.crt)}}]
users: [{name: $user, user: {client-certificate-data: $(base64 -w0 $user.crt), client-key-data: $(base64 -w0 $user.key)}}]
contexts: [{name: devcluster, context: {cluster: devcluster, user: $user}}]
END
done
