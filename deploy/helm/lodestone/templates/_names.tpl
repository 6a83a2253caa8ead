{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* The name of all objects. Pods of a StatefulSet add a number to it. */}}
{{- define "lodestone.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end -}}
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
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* The directories of the data, in one line. */}}
{{- define "lodestone.dirs" -}}
{{- $count := .Values.storage.volumes | int -}}
{{- if eq .Values.kind "DaemonSet" -}}
{{- $count = len .Values.storage.hostPaths -}}
{{- end -}}
{{- $dirs := list -}}
{{- range until $count -}}
{{- $dirs = append $dirs (printf "/data/%d" .) -}}
{{- end -}}
{{ join "," $dirs }}
{{- end -}}
