{{- define "delayq.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "delayq.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "delayq.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "delayq.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "delayq.selector" -}}
app.kubernetes.io/name: {{ include "delayq.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}

{{- define "delayq.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: delayq
{{- end }}

{{- define "delayq.labels" -}}
{{ include "delayq.commonLabels" . }}
{{ include "delayq.selector" . }}
{{- end }}

{{- define "delayq.redisSelector" -}}
app.kubernetes.io/name: {{ include "delayq.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: redis
{{- end }}

{{- define "delayq.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "delayq.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "delayq.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* The secret with the URL of the store, after a look at how it is given. */}}
{{- define "delayq.storeSecret" -}}
{{- $ways := 0 }}
{{- if .Values.store.existingSecret }}{{ $ways = add1 $ways }}{{ end }}
{{- if .Values.store.url }}{{ $ways = add1 $ways }}{{ end }}
{{- if .Values.redis.enabled }}{{ $ways = add1 $ways }}{{ end }}
{{- if ne (int $ways) 1 }}
{{- fail "give one store: store.existingSecret, store.url, or redis.enabled=true for a trial" }}
{{- end }}
{{- if or (hasPrefix "sqlite:" .Values.store.url) (hasPrefix "memory:" .Values.store.url) }}
{{- fail "store.url: pods do not share a file or their memory; use redis:// or postgres://" }}
{{- end }}
{{- if .Values.store.existingSecret }}
{{- .Values.store.existingSecret }}
{{- else if .Values.redis.enabled }}
{{- include "delayq.fullname" . }}-redis
{{- else }}
{{- include "delayq.fullname" . }}-store
{{- end }}
{{- end }}

{{- define "delayq.bootstrapSecret" -}}
{{- default (printf "%s-bootstrap" (include "delayq.fullname" .)) .Values.bootstrapToken.existingSecret }}
{{- end }}

{{- define "delayq.hasConfig" -}}
{{- if and .Values.config .Values.configSecret.existingSecret }}
{{- fail "give config or configSecret.existingSecret, not both" }}
{{- end }}
{{- if or (regexMatch "(?m)^[^#\n]*\\bclient_ca\\s*=" .Values.config) (contains "DELAYQ_TLS__CLIENT_CA" (toJson .Values.extraEnv)) }}
{{- fail "config: with tls.client_ca no probe of Kubernetes gets in, as it has no certificate; verify clients in the gateway or the mesh in front" }}
{{- end }}
{{- if or .Values.config .Values.configSecret.existingSecret }}true{{ end }}
{{- end }}

{{/* How long a pod may take to stop, after a look at what the server takes. */}}
{{- define "delayq.stopSeconds" -}}
{{- $needed := add (divf (add (int .Values.stop.readyGraceMs) (int .Values.stop.graceMs)) 1000 | ceil | int) 25 }}
{{- if lt (int .Values.terminationGracePeriodSeconds) (int $needed) }}
{{- fail (printf "terminationGracePeriodSeconds: stop.readyGraceMs, stop.graceMs, 20 s for pushes and 5 s more are %d s: give it as much" $needed) }}
{{- end }}
{{- .Values.terminationGracePeriodSeconds }}
{{- end }}

{{/* Nothing that runs here needs a right of root, or writes outside of its volumes. */}}
{{- define "delayq.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
