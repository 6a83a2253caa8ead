{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* The name of all objects. Pods of a StatefulSet add a number to it. */}}
{{- define "lodestone.name" -}}
{{- if not (regexMatch "^[a-z][-a-z0-9]*$" .Release.Name) -}}
{{- fail (printf "the release %s: its name is a part of names in DNS, so it must begin with a letter, and have no dots" .Release.Name) -}}
{{- end -}}
{{- $name := .Release.Name -}}
{{- if not (contains .Chart.Name $name) -}}
{{- $name = printf "%s-%s" $name .Chart.Name -}}
{{- end -}}
{{- if gt (len $name) 52 -}}
{{- /* Two long names that begin alike are still two. */ -}}
{{- $name = printf "%s-%s" ($name | trunc 43 | trimSuffix "-") ($name | sha256sum | trunc 8) -}}
{{- end -}}
{{ $name }}
{{- end -}}

{{/* Labels that never change: a workload cannot change its selector. */}}
{{- define "lodestone.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "lodestone.labels" -}}
{{ include "lodestone.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "lodestone.image" -}}
{{- $repository := required "image.repository is empty: put the image of `make image` into your registry, and name it" .Values.image.repository -}}
{{- with .Values.image.digest -}}
{{ $repository }}@{{ . }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Where the admin endpoint listens. On the network of a node no NetworkPolicy keeps others out: nobody else reaches it, if nobody is named. */}}
{{- define "lodestone.adminHost" -}}
{{- $wanted := or .Values.podMonitor.enabled .Values.prometheusRule.enabled .Values.networkPolicy.monitoring -}}
{{- if and .Values.hostNetwork (not $wanted) -}}127.0.0.1{{- else -}}0.0.0.0{{- end -}}
{{- end -}}

{{/* The directories of the data, in one line. They are not below a folder of the image, which belongs to its user, and not to `user`. */}}
{{- define "lodestone.dirs" -}}
{{- $count := .Values.storage.volumes | int -}}
{{- if eq .Values.kind "DaemonSet" -}}
{{- $count = len .Values.storage.hostPaths -}}
{{- end -}}
{{- $dirs := list -}}
{{- range until $count -}}
{{- $dirs = append $dirs (printf "/disks/%d" .) -}}
{{- end -}}
{{ join "," $dirs }}
{{- end -}}
