{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* The template of a pod, for both kinds of workload. */}}
{{- define "lodestone.pod" -}}
metadata:
  labels:
    {{- include "lodestone.selector" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  terminationGracePeriodSeconds: {{ include "lodestone.gracePeriod" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- if .Values.hostNetwork }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  {{- with .Values.serviceAccount }}
  serviceAccountName: {{ . }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if eq .Values.kind "StatefulSet" }}
  topologySpreadConstraints:
    {{- with .Values.topologySpreadConstraints }}
    {{- toYaml . | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "lodestone.selector" . | nindent 10 }}
    {{- end }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: {{ int64 .Values.user }}
    runAsGroup: {{ int64 .Values.user }}
    fsGroup: {{ int64 .Values.user }}
    # Another mode of the files at each start would make the daemon refuse them: remote shuffles would be lost.
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: lodestone
      image: {{ include "lodestone.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - serve
        - --listen=0.0.0.0:7337
        - --admin={{ include "lodestone.adminHost" . }}:7338
        - --dir={{ include "lodestone.dirs" . }}
        - --memory={{ include "lodestone.memory" . }}MiB
        - --executor-root=/var/empty
        {{- if .Values.secrets.existingSecret }}
        - --secrets=/secrets
        {{- end }}
        {{- if .Values.tls.existingSecret }}
        - --tls-cert=/tls/tls.crt
        - --tls-key=/tls/tls.key
        {{- end }}
        {{- if .Values.encryptedOnly }}
        - --encrypted-only
        {{- end }}
        {{- if .Values.zone.fromNode }}
        - --zone=$(LODESTONE_ZONE)
        {{- else if .Values.zone.name }}
        - --zone={{ .Values.zone.name }}
        {{- end }}
        {{- range .Values.extraArgs }}
        - {{ include "lodestone.extraArg" . | quote }}
        {{- end }}
      {{- if .Values.zone.fromNode }}
      env:
        # Empty if the pod has no such label: then the service has no zone.
        - name: LODESTONE_ZONE
          valueFrom:
            fieldRef:
              fieldPath: metadata.labels['topology.kubernetes.io/zone']
      {{- end }}
      ports:
        - name: shuffle
          containerPort: 7337
        - name: admin
          containerPort: 7338
      resources:
        requests:
          cpu: {{ .Values.cpu | quote }}
          memory: {{ include "lodestone.containerMemory" . }}Mi
        limits:
          memory: {{ include "lodestone.containerMemory" . }}Mi
      # There is no liveness probe: a daemon that waits for a disk must not be killed, because its data is lost then.
      readinessProbe:
        httpGet:
          path: /health
          port: admin
          {{- if eq (include "lodestone.adminHost" .) "127.0.0.1" }}
          host: 127.0.0.1
          {{- end }}
        periodSeconds: 5
        timeoutSeconds: 3
      lifecycle:
        preStop:
          exec:
            command: [/lodestone, drain, "--timeout={{ int64 .Values.drainSeconds }}s"]
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        {{- range $number, $dir := include "lodestone.dirs" . | splitList "," }}
        - name: data-{{ $number }}
          mountPath: {{ $dir }}
        {{- end }}
        {{- if .Values.secrets.existingSecret }}
        - name: secrets
          mountPath: /secrets
          readOnly: true
        {{- end }}
        {{- if .Values.tls.existingSecret }}
        - name: tls
          mountPath: /tls
          readOnly: true
        {{- end }}
  {{- if or .Values.secrets.existingSecret .Values.tls.existingSecret (eq .Values.kind "DaemonSet") }}
  volumes:
    {{- if .Values.secrets.existingSecret }}
    - name: secrets
      secret:
        secretName: {{ .Values.secrets.existingSecret }}
        defaultMode: 0440
    {{- end }}
    {{- if .Values.tls.existingSecret }}
    - name: tls
      secret:
        secretName: {{ .Values.tls.existingSecret }}
        # For the group of the daemon alone.
        defaultMode: 0440
        items:
          - key: tls.crt
            path: tls.crt
          - key: tls.key
            path: tls.key
    {{- end }}
    {{- if eq .Values.kind "DaemonSet" }}
    {{- range $number, $path := .Values.storage.hostPaths }}
    - name: data-{{ $number }}
      hostPath:
        path: {{ $path }}
        type: Directory
    {{- end }}
    {{- end }}
  {{- end }}
{{- end -}}
