{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* `memory` in MiB. */}}
{{- define "lodestone.memory" -}}
{{- $number := regexFind "^[0-9]+" .Values.memory | int64 -}}
{{- $unit := regexFind "[A-Z]i$" .Values.memory -}}
{{ mul $number (get (dict "Mi" 1 "Gi" 1024 "Ti" 1048576) $unit) }}
{{- end -}}

{{/* The memory of the container in MiB: `memory`, and what the process needs beside it (docs/operations.md). Each of 4,096
     connections may encrypt, which takes 64 KiB with secrets, and 144 KiB with TLS. */}}
{{- define "lodestone.containerMemory" -}}
{{- $memory := include "lodestone.memory" . | int64 -}}
{{- $beside := max 192 (div $memory 8) -}}
{{- $secrets := ternary 256 0 (ne .Values.secrets.existingSecret "") -}}
{{ add $memory $beside (ternary 576 $secrets (ne .Values.tls.existingSecret "")) }}
{{- end -}}

{{/* Seconds for the end of a pod: the drain, and twice the time in which the disks write out seventeen thirty-seconds of `memory`, at
     least 6 minutes (docs/deployment.md). */}}
{{- define "lodestone.gracePeriod" -}}
{{- $written := div (mul (include "lodestone.memory" . | int64) 17) 32 -}}
{{ add (int64 .Values.drainSeconds) (max 360 (div (mul 2 $written) (int64 .Values.storage.writeSpeed))) }}
{{- end -}}
