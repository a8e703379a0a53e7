# Two images from one file: `job` for driver, executors and rollback Job, `operator` for the operator. `make images` builds
# both with this machine's tools; with Docker alone:
#   docker build --target operator --tag bucketingest-operator .
#   docker build --target job --build-context connectors="$HOME/.cache/bucketingest/jars/spark-4.2" --tag bucketingest-job .
# (`make connectors` fills that folder). Layers that change more often come later: the code is the last.
ARG BASE_IMAGE=debian:bookworm-slim

# ---------------------------------------------------------------------------------------------------- base of both
FROM ${BASE_IMAGE} AS base
RUN apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends ca-certificates python3 tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/* \
 && groupadd --gid 10001 bucketingest \
 && useradd --uid 10001 --gid 10001 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin bucketingest
ENV PATH=/opt/bucketingest/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# ------------------------------------------------------------------------------------------------------------------- tools
FROM base AS tools
RUN apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3-venv \
 && rm -rf /var/lib/apt/lists/*
COPY requirements/build.txt /build/
RUN python3 -m venv /opt/tools \
 && /opt/tools/bin/pip install --quiet --no-cache-dir --require-hashes -r /build/build.txt \
 && python3 -m venv --without-pip /opt/bucketingest

# ---------------------------------------------------------------------------------------------------------------- operator
FROM tools AS operator-dependencies
COPY requirements/operator.txt /build/
RUN /opt/tools/bin/pip --python /opt/bucketingest/bin/python install --quiet --no-cache-dir --require-hashes --no-deps \
      -r /build/operator.txt

FROM tools AS operator-code
COPY sparkjob /build/sparkjob
COPY operator /build/operator
RUN /opt/tools/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /build/wheels /build/sparkjob /build/operator \
 && /opt/tools/bin/pip --python /opt/bucketingest/bin/python install --quiet --no-index --no-deps --prefix /code \
      /build/wheels/*.whl

FROM base AS operator
COPY --from=operator-dependencies /opt/bucketingest /opt/bucketingest
COPY --from=operator-code /code /opt/bucketingest
USER 10001:10001
WORKDIR /tmp
EXPOSE 9810
ENTRYPOINT ["/usr/bin/tini", "--", "bucketingest-operator"]

# --------------------------------------------------------------------------------------------------------------------- job
FROM base AS java
# libgssapi-krb5-2: Kerberos of Hive metastores. Java's package links manual pages into a folder that a small image lacks.
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends libgssapi-krb5-2 openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* \
 && ln -s "$(dirname "$(dirname "$(readlink -f /usr/bin/java)")")" /opt/java

FROM tools AS job-dependencies
COPY requirements/job.txt /build/
# PySpark is a source package: the locked tools build a wheel first. Its zip archive is removed: Spark puts it before the
# installed package, and Python workers would compile it at each start.
RUN /opt/tools/bin/pip wheel --quiet --no-cache-dir --require-hashes --no-deps --no-build-isolation --wheel-dir /build/wheels \
      -r /build/job.txt \
 && /opt/tools/bin/pip --python /opt/bucketingest/bin/python install --quiet --no-index --no-deps /build/wheels/*.whl \
 && rm -rf /build/wheels \
 && rm /opt/bucketingest/lib/python3*/site-packages/pyspark/python/lib/pyspark.zip \
 && ln -s "$(/opt/bucketingest/bin/python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')" /opt/bucketingest/spark
# Driver and executors find the Kafka source among Spark's own jars, so Spark need not send it.
COPY --from=connectors / /build/connectors/
RUN cp /build/connectors/*.jar /opt/bucketingest/spark/jars/

# The classes of Spark as a JVM holds them in memory: it starts in two thirds of the processor time.
FROM java AS class-archive
COPY --from=job-dependencies /opt/bucketingest /opt/bucketingest
COPY sparkjob/container/class_archive.py /build/
RUN mkdir /archive \
 && SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_HOSTNAME=localhost \
      /opt/bucketingest/bin/python /build/class_archive.py /archive/spark.jsa

FROM tools AS job-code
COPY sparkjob /build/sparkjob
RUN /opt/tools/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /build/wheels /build/sparkjob \
 && /opt/tools/bin/pip --python /opt/bucketingest/bin/python install --quiet --no-index --no-deps --prefix /code \
      /build/wheels/*.whl \
 && install -m 755 /build/sparkjob/container/entrypoint.sh /code/bin/bucketingest-entrypoint

FROM java AS job
COPY --from=job-dependencies /opt/bucketingest /opt/bucketingest
COPY --from=class-archive /archive /opt/bucketingest/archive
COPY --from=job-code /code /opt/bucketingest
ENV BUCKETINGEST_CLASS_ARCHIVE=/opt/bucketingest/archive/spark.jsa \
    JAVA_HOME=/opt/java \
    SPARK_HOME=/opt/bucketingest/spark \
    PYSPARK_PYTHON=/opt/bucketingest/bin/python
USER 10001:10001
# A read-only container can write here: the pod mounts volumes over these folders.
WORKDIR /tmp
EXPOSE 7078 7079 9808
ENTRYPOINT ["/opt/bucketingest/bin/bucketingest-entrypoint"]
CMD ["--help"]
