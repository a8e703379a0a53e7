#!/bin/bash
# What the job's image starts: with `executor` an executor, as Spark on Kubernetes asks for it with its variables;
# with anything else a command of bucketingest.
set -euo pipefail

if [ "${1:-}" != executor ]; then
  exec bucketingest "$@"
fi

# SPARK_JAVA_OPT_0, _1, ...: the options of the JVM in their order; one may hold spaces, as spark.executor.extraJavaOptions.
options=()
for ((number = 0; ; number++)); do
  name=SPARK_JAVA_OPT_$number
  [ -n "${!name+set}" ] || break
  options+=("${!name}")
done
# The JVM takes the class archive only if its class path comes first.
archived=
archive=${BUCKETINGEST_CLASS_ARCHIVE:-}
if [ -n "$archive" ] && [ -r "$archive.classpath" ]; then
  archived=$(<"$archive.classpath"):
  options+=("-XX:SharedArchiveFile=$archive" -Xlog:cds=off,cds+dynamic=off)
fi
classpath=$archived${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*${SPARK_EXTRA_CLASSPATH:+:$SPARK_EXTRA_CLASSPATH}

# tini passes signals on, and reaps what Python's workers leave.
exec tini -s -- java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$classpath" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
