{{- define "bucketingest.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "bucketingest.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "bucketingest.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "bucketingest.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "bucketingest.selector" -}}
app.kubernetes.io/name: bucketingest-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "bucketingest.labels" -}}
{{ include "bucketingest.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: bucketingest
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "bucketingest.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "bucketingest.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed with serviceAccount.create: false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Each release has its own: releases that watch different namespaces act side by side. */}}
{{- define "bucketingest.leaseName" -}}
{{- printf "%s-operator" (include "bucketingest.fullname" . | trunc 54 | trimSuffix "-") -}}
{{- end -}}

{{/* The operators of another release: it would act where this one does. Its Lease says so, as long as it renews it,
     and names the Lease of the release's leader. Whoever may write in a namespace can write anything into it, and any
     Lease: only an administrator can have made the release's ClusterRole. */}}
{{- define "bucketingest.refuseOverlap" -}}
{{- $own := printf "%s/%s" .Release.Namespace (include "bucketingest.leaseName" .) -}}
{{- range default (list "kube-system") .Values.operator.watchNamespaces -}}
{{- $spec := dig "spec" (dict) (lookup "coordination.k8s.io/v1" "Lease" . "bucketingest-operator-watch") -}}
{{- $holder := default "" $spec.holderIdentity -}}
{{- if and $holder (ne $holder $own) $spec.renewTime -}}
{{- $renewed := toDate "2006-01-02T15:04:05Z07:00" (printf "%sZ" (trunc 19 $spec.renewTime)) -}}
{{- $release := splitn "/" 2 $holder -}}
{{- $role := printf "%s-%s-cluster" $release._0 (trimSuffix "-operator" (default "" $release._1)) -}}
{{- $exists := lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" $role -}}
{{- if and $exists (lt (sub (now | unixEpoch) ($renewed | unixEpoch)) 60) -}}
{{- $where := ternary (printf "namespace %s" .) "the whole cluster" (not (empty $.Values.operator.watchNamespaces)) -}}
{{- fail (printf "another release watches %s: %s. Give each release its own operator.watchNamespaces, or uninstall one" $where $holder) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "bucketingest.operatorImage" -}}
{{- $image := .Values.operator.image -}}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}

{{/* Of a NetworkPolicy that names who may read metrics: the operator may always. Else anyone may. */}}
{{- define "bucketingest.jobNetworkPolicy" -}}
{{- $policy := .Values.networkPolicy -}}
enabled: {{ $policy.jobs }}
{{- with $policy.metricsFrom }}
metricsFrom:
  - namespaceSelector:
      matchLabels: {kubernetes.io/metadata.name: {{ $.Release.Namespace }}}
    podSelector:
      matchLabels:
        {{- include "bucketingest.selector" $ | nindent 8 }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "bucketingest.jobSettings" -}}
{{- $image := default (printf "bucketingest-job:%s" .Chart.AppVersion) .Values.job.image -}}
{{- $given := deepCopy .Values.job }}
{{- range list "priorityClassName" "schedulerName" "runtimeClassName" "ephemeralStorage" }}
{{- if not (get $given .) }}{{ $given = omit $given . }}{{ end -}}
{{- end -}}
{{- $policy := include "bucketingest.jobNetworkPolicy" . | fromYaml -}}
{{- toYaml (mustMergeOverwrite $given (dict "image" $image "networkPolicy" $policy)) -}}
{{- end -}}

{{/* To see another release that watches the same: in each namespace that this one names, or in kube-system. */}}
{{- define "bucketingest.watchRules" -}}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [bucketingest-operator-watch], verbs: [get, update]}
{{- end -}}

{{/* The minimal rights. A test compares them with those that tests run with; docs/operator.md explains each. */}}
{{- define "bucketingest.namespacedRules" -}}
- {apiGroups: [bucketingest.dev], resources: [bucketingests], verbs: [get, list, watch, patch]}
- {apiGroups: [bucketingest.dev], resources: [bucketingests/status], verbs: [update]}
# The operator gives a driver these verbs by a Role, and can only give rights that it has.
- {apiGroups: [""], resources: [pods], verbs: [create, delete, deletecollection, get, list, patch, watch]}
- {apiGroups: [""], resources: [configmaps], verbs: [create, delete, list, watch]}
# Not get: the operator makes the secrets of Spark's ports, and reads none.
- {apiGroups: [""], resources: [secrets], verbs: [create]}
- {apiGroups: [""], resources: [serviceaccounts], verbs: [create, patch]}
- {apiGroups: [""], resources: [events], verbs: [create]}
- {apiGroups: [batch], resources: [jobs], verbs: [create, delete, list, watch]}
- {apiGroups: [networking.k8s.io], resources: [networkpolicies], verbs: [create, delete, patch]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [create, patch]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [rolebindings], verbs: [create, patch]}
{{- end -}}
