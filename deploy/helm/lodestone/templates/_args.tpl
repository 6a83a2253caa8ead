{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* Flags that the chart gives, and what decides about each. */}}
{{- define "lodestone.ownFlags" -}}
listen: services listen at 0.0.0.0:7337
admin: the endpoint listens at port 7338, and networkPolicy.monitoring or podMonitor.enabled opens it on the address of a node
dir: set storage.volumes or storage.hostPaths
memory: set memory
executor-root: executors are in other pods, and register no directories
secrets: set secrets.existingSecret
tls-cert: set tls.existingSecret
tls-key: set tls.existingSecret
encrypted-only: set encryptedOnly
zone: set zone.name or zone.fromNode
{{- end -}}

{{/* A further flag. The daemon would refuse to start with one that it gets twice. */}}
{{- define "lodestone.extraArg" -}}
{{- $own := include "lodestone.ownFlags" . | fromYaml -}}
{{- $flag := . | trimPrefix "--" | splitList "=" | first -}}
{{- if and (hasPrefix "--" .) (hasKey $own $flag) -}}
{{- fail (printf "extraArgs: --%s is a flag that the chart gives itself: %s" $flag (get $own $flag)) -}}
{{- end -}}
{{ . }}
{{- end -}}
