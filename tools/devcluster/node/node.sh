#!/usr/bin/env bash
# Process 1 of the node's pid namespace: starts what a Kubernetes node consists of, then reaps. When it ends, all ends.
# The variables come from devcluster.node.embedded.
set -uo pipefail

start() { # start NAME COMMAND...
  local name=$1
  shift
  "$@" >"$RUN/log/$name.log" 2>&1 &
  echo "$name: process $! of the namespace"
}

hostname "$NODE_NAME"
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.bridge.bridge-nf-call-ip6tables=1 net.bridge.bridge-nf-call-iptables=1 2>&1
mkdir -p /var/log/containers /run/containerd /run/netns "$RUN"/{etcd,kubelet,pod-logs,cni/net.d,certs.d/localhost:5000}
# Nothing of these may be seen by others on the machine, or stay.
for folder in /var/log/containers /run/containerd /run/netns "$RUN/etcd"; do
  mount -t tmpfs tmpfs "$folder"
done
# The kubelet would set these for the whole machine: it is shown the values it wants instead.
for pair in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  shown=$RUN/shown-$(basename "${pair%=*}")
  echo "${pair#*=}" >"$shown"
  mount --bind "$shown" "/proc/sys/${pair%=*}"
done

loopback=http://127.0.0.1
start etcd "$BIN/etcd" --data-dir "$RUN/etcd/data" --listen-client-urls $loopback:2379 --advertise-client-urls $loopback:2379 \
  --listen-peer-urls $loopback:2380 --initial-advertise-peer-urls $loopback:2380 --initial-cluster default=$loopback:2380 \
  --unsafe-no-fsync
start kube-apiserver "$BIN/kube-apiserver" --etcd-servers=$loopback:2379 --advertise-address="$CLUSTER_IP" \
  --bind-address="$ANY_IP" --secure-port=6443 --service-cluster-ip-range="$SERVICE_CIDR" --client-ca-file="$PKI/ca.crt" \
  --tls-cert-file="$PKI/apiserver.crt" --tls-private-key-file="$PKI/apiserver.key" \
  --service-account-key-file="$PKI/sa.pub" --service-account-signing-key-file="$PKI/sa.key" \
  --service-account-issuer=https://kubernetes.default.svc.cluster.local --authorization-mode=Node,RBAC \
  --enable-admission-plugins=NodeRestriction --allow-privileged=true \
  --kubelet-client-certificate="$PKI/apiserver-kubelet-client.crt" --kubelet-client-key="$PKI/apiserver-kubelet-client.key" \
  --kubelet-certificate-authority="$PKI/ca.crt" --kubelet-preferred-address-types=InternalIP \
  --requestheader-client-ca-file="$PKI/ca.crt" --requestheader-allowed-names=front-proxy-client --profiling=false \
  --shutdown-delay-duration=0s

if [ "$WITH_NODE" = 1 ]; then
  cat >"$RUN/containerd.toml" <<END
version = 2
root = "$CONTAINERD_ROOT"
state = "$RUN/containerd"
[grpc]
  address = "$CONTAINERD_SOCKET"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  # Without CAP_SYS_RESOURCE a score cannot be lowered, and runc fails over it.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "$RUN/certs.d"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$RUN/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "$(command -v runc || echo /usr/sbin/runc)"
END
  cat >"$RUN/cni/net.d/10-bridge.conflist" <<END
{"cniVersion": "0.4.0", "name": "devcluster", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "ipMasq": false,
   "ipam": {"type": "host-local", "dataDir": "$RUN/cni/ipam", "ranges": [[{"subnet": "$POD_CIDR"}]],
            "routes": [{"dst": "$ANY_IP/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
END
  printf 'server = "http://%s:5000"\n[host."http://%s:5000"]\n  capabilities = ["pull", "resolve"]\n' "$NODE_IP" "$NODE_IP" \
    >"$RUN/certs.d/localhost:5000/hosts.toml"
  cat >"$RUN/registry.yaml" <<END
version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: "$REGISTRY_ROOT"}, delete: {enabled: true}}
http: {addr: "$NODE_IP:5000"}
END
  start registry "$BIN/registry" serve "$RUN/registry.yaml"
  start containerd containerd -c "$RUN/containerd.toml"
fi

# Controllers ask until the API answers; to start them earlier would only take CPU from it.
until curl -s -o /dev/null --fail --cacert "$PKI/ca.crt" --cert "$PKI/admin.crt" --key "$PKI/admin.key" \
  "https://$NODE_IP:6443/readyz"; do sleep 0.1; done

start kube-controller-manager "$BIN/kube-controller-manager" --kubeconfig="$PKI/controllers.kubeconfig" \
  --authentication-kubeconfig="$PKI/controllers.kubeconfig" --authorization-kubeconfig="$PKI/controllers.kubeconfig" \
  --service-account-private-key-file="$PKI/sa.key" --root-ca-file="$PKI/ca.crt" --kube-api-qps=1000 --kube-api-burst=2000 \
  --use-service-account-credentials=true --leader-elect=false --bind-address=127.0.0.1 --cluster-signing-cert-file="$PKI/ca.crt" \
  --cluster-signing-key-file="$PKI/ca.key" --profiling=false --horizontal-pod-autoscaler-sync-period=2s

if [ "$WITH_NODE" = 1 ]; then
  start kube-scheduler "$BIN/kube-scheduler" --kubeconfig="$PKI/scheduler.kubeconfig" \
    --authentication-kubeconfig="$PKI/scheduler.kubeconfig" --authorization-kubeconfig="$PKI/scheduler.kubeconfig" \
    --leader-elect=false --bind-address=127.0.0.1 --profiling=false
  : >"$RUN/resolv.conf"
  cat >"$RUN/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /$CGROUP
containerRuntimeEndpoint: unix://$CONTAINERD_SOCKET
failSwapOn: false
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $PKI/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $PKI/kubelet-serving.crt
tlsPrivateKeyFile: $PKI/kubelet-serving.key
address: "$ANY_IP"
clusterDNS: ["$CLUSTER_IP"]
clusterDomain: cluster.local
resolvConf: $RUN/resolv.conf
podLogsDir: $RUN/pod-logs
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, nodefs.inodesFree: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
serializeImagePulls: false
nodeStatusUpdateFrequency: 2s
syncFrequency: 10s
registerNode: true
END
  start kubelet "$BIN/kubelet" --config="$RUN/kubelet.yaml" --kubeconfig="$PKI/kubelet.kubeconfig" --root-dir="$RUN/kubelet" \
    --hostname-override="$NODE_NAME" --node-ip="$CLUSTER_IP" --v=2
  cat >"$RUN/proxy.yaml" <<END
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clientConnection: {kubeconfig: $PKI/proxy.kubeconfig}
hostnameOverride: $NODE_NAME
clusterCIDR: "$POD_CIDR"
metricsBindAddress: 127.0.0.1:10249
healthzBindAddress: 127.0.0.1:10256
conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
END
  start kube-proxy "$BIN/kube-proxy" --config="$RUN/proxy.yaml"
  sed "s#@NODE_IP@#$CLUSTER_IP#; s#@KUBECONFIG@#$PKI/admin.kubeconfig#" "$NODE_FILES/Corefile" >"$RUN/Corefile"
  start coredns "$BIN/coredns" -conf "$RUN/Corefile"
fi

trap 'exit 0' TERM
while :; do wait -n 2>/dev/null || sleep 1; done
