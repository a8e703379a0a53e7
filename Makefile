# Everything a developer runs. A fresh machine needs python3.11 or newer, java 17, mvn, go, git and make; make installs the rest.
# The tests with Trino and Debezium need java 25 too.
# Environments, downloads and builds are reused until their inputs change.

.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# Tests start many processes: each would compile all that it imports, which takes as long as the import.
unexport PYTHONDONTWRITEBYTECODE

# The first interpreter that runs and is new enough.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
  $$p -c 'import sys; sys.version_info < (3, 11) and sys.exit(1); print(sys.executable)' 2>/dev/null && break; done)
$(if $(PYTHON),,$(error Python 3.11 or newer is missing. On Debian or Ubuntu: sudo apt-get install python3 python3-venv))

# CACHE, CONNECTORS, KAFKA_BROKER, APICURIO_REGISTRY, TRINO, DEBEZIUM, DATABASES, KERBEROS, HUDI_BUNDLE, SPARK_PROTOBUF, KAFKA_SPARK_3_5, VERSITYGW, ORACLE_VENV: paths in the cache folder
$(foreach line,$(shell $(PYTHON) tools/devservers/locations.py),$(eval $(line)))

UV_VERSION := 0.13.8
UV := $(or $(shell command -v uv),$(CACHE)/uv-$(UV_VERSION)/bin/uv)
# The machine's own certificates and package index, as for pip.
export UV_SYSTEM_CERTS ?= true
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
export UV_PYTHON_DOWNLOADS := never

VENV := .venv
READY := $(VENV)/.ready
BIN := $(CURDIR)/$(VENV)/bin
CLASS_ARCHIVE := $(VENV)/spark.jsa
DEVSERVERS := PYTHONPATH=tools $(BIN)/python -m devservers
DEVCLUSTER := PYTHONPATH=tools $(BIN)/python -m devcluster
RELEASE_VENV := build/release-venv

##@ Try it

.PHONY: demo
demo: $(READY) java ## write a Hudi table on this machine and read it back (needs java 17)
	$(BIN)/bucketingest demo

.PHONY: demo-kafka
demo-kafka: $(READY) java connectors kafka-broker ## the same from Kafka, with its own broker
	$(DEVSERVERS) --kafka -- $(BIN)/bucketingest demo --kafka

.PHONY: demo-debezium
demo-debezium: $(READY) java connectors kafka-broker databases debezium ## a mirror of a PostgreSQL by Debezium, and its audit (also needs Java 25)
	PYTHONPATH=tools $(BIN)/python -m devservers.mirror.demo

.PHONY: demo-cluster
demo-cluster: $(READY) java connectors kafka-broker ## on Kubernetes: install, apply, kill the driver, watch the restart (KUBECONFIG, kind, or root)
	$(DEVCLUSTER).demo

.PHONY: cluster-up cluster-down
cluster-up: $(READY) ## start Kubernetes on this machine: kind, or one embedded node (root); with KUBECONFIG, use yours
	$(DEVCLUSTER) up
cluster-down: $(READY) ## stop it
	$(DEVCLUSTER) down

.PHONY: cluster-setup
cluster-setup: $(READY) connectors ## install packages, binaries and images for the embedded node (root; about 15 minutes the first time)
	$(DEVCLUSTER) setup
	$(DEVCLUSTER) build-image

# PLATFORM: linux/amd64 or linux/arm64; by default this machine's. Programs of the other run by qemu: ten times slower.
.PHONY: images
images: $(READY) $(RELEASE_VENV)/.ready connectors ## build the container images, with bills of materials and provenance in build/images (PLATFORM=linux/arm64)
	PYTHONPATH=tools $(BIN)/python -m release images --out build/images --cyclonedx $(RELEASE_VENV)/bin/cyclonedx-py \
	  $(if $(PLATFORM),--platform $(PLATFORM))

##@ Check it

# They mostly wait: so more processes than cores, each with its own API server.
OPERATOR_TESTS = $(BIN)/pytest tests/integration/operator --numprocesses 3 $(PYTEST_ARGS)
# Half of the time they wait: two processes, each with its own node, unless you name a cluster.
E2E_TESTS = $(BIN)/pytest tests/e2e --numprocesses auto --maxschedchunk 1 $(PYTEST_ARGS)

# Those of the operator run beside the others. In a process group of their own they get Ctrl-C, which a shell's background
# processes ignore, and stop their API servers. Those on a cluster run beside no others: two at a time use all of two cores.
.PHONY: test
test: $(READY) test-deps ## everything: unit tests, integration with Spark, Kafka, S3, Hudi's own reader and writer, and on a cluster
	mkdir -p build; \
	set -m; \
	$(OPERATOR_TESTS) >build/test-operator.log 2>&1 & \
	operator=$$!; \
	set +m; \
	trap 'kill -INT -- -$$operator' INT; \
	echo "the operator's tests run beside these; their output comes later, and is in build/test-operator.log"; \
	failed=0; \
	$(BIN)/pytest tests/unit tests/simulation --numprocesses auto $(PYTEST_ARGS) || failed=1; \
	$(BIN)/pytest tests/integration --ignore=tests/integration/operator --numprocesses 2 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS) || failed=1; \
	wait $$operator || failed=1; \
	cat build/test-operator.log; \
	$(E2E_TESTS) || failed=1; \
	exit $$failed

# Ten values for each property test, unless you name another number.
.PHONY: test-fast
test-fast: $(READY) ## what needs no JVM and no server: unit tests and simulated schedules
	BUCKETINGEST_EXAMPLES=$${BUCKETINGEST_EXAMPLES:-10} $(BIN)/pytest tests/unit tests/simulation --numprocesses auto $(PYTEST_ARGS)

# PYTEST_ARGS='-k hangs'; BUCKETINGEST_KEEP_CLUSTER=1 keeps the cluster. Without a cluster it says so, and fails in CI.
.PHONY: test-e2e
test-e2e: $(READY) java connectors kafka-broker versitygw prometheus ## the operator against a real API server, then on a cluster: apply, run, kill, restart
	failed=0; \
	$(OPERATOR_TESTS) || failed=1; \
	$(E2E_TESTS) || failed=1; \
	exit $$failed

# FROM: the commit or tag whose chart and operator are installed first. Two pipelines are real, eight have small processes.
.PHONY: test-upgrade
test-upgrade: $(READY) java connectors ## helm upgrade and rollback with ten running pipelines: no driver restarts (FROM=COMMIT; minutes)
	$(if $(FROM),,$(error name the version to upgrade from: make test-upgrade FROM=COMMIT))
	BUCKETINGEST_REQUIRE_CLUSTER=1 BUCKETINGEST_UPGRADE_FROM=$(FROM) $(BIN)/pytest tests/e2e/test_upgrade.py $(PYTEST_ARGS)

.PHONY: test-scaling
test-scaling: $(READY) java connectors kafka-broker versitygw ## executors follow the load on a cluster, up and down, without a restart (ten minutes)
	BUCKETINGEST_REQUIRE_CLUSTER=1 BUCKETINGEST_SCALING=1 $(BIN)/pytest tests/e2e/test_scaling.py $(PYTEST_ARGS)

.PHONY: test-ipv6
test-ipv6: $(READY) java connectors kafka-broker versitygw ## a pipeline on a cluster that has IPv6 addresses alone (minutes)
	BUCKETINGEST_REQUIRE_CLUSTER=1 BUCKETINGEST_CLUSTER_IPV6=1 $(BIN)/pytest tests/e2e/test_ipv6.py $(PYTEST_ARGS)

.PHONY: test-keda
test-keda: $(READY) java connectors kafka-broker ## KEDA scales a pipeline by the lag of its group in Kafka (KEDA is built with Go, once)
	$(DEVCLUSTER) setup --only keda
	BUCKETINGEST_REQUIRE_CLUSTER=1 BUCKETINGEST_KEDA=1 $(BIN)/pytest tests/integration/operator/test_keda.py $(PYTEST_ARGS)

# The images are built first, if they are not there: an hour where qemu runs their programs.
.PHONY: test-images
test-images: $(READY) connectors ## both images of a platform start, and the job's writes a table (PLATFORM=linux/arm64)
	BUCKETINGEST_TEST_IMAGES=$(or $(PLATFORM),native) $(BIN)/pytest tests/e2e/test_images.py $(PYTEST_ARGS)

.PHONY: test-alerts
test-alerts: $(READY) java connectors kafka-broker oracle prometheus ## every alert fires only when it should
	$(BIN)/pytest tests/unit/monitoring tests/unit/drills tests/integration/drills tests/integration/monitoring/test_alerts.py $(PYTEST_ARGS)

.PHONY: check
check: $(READY) ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# SEEDS: how many schedules, from FIRST on; SEED: only this one, with all its steps; STATE: tables with a state;
# GLOBAL: with keys that are in one partition only; MIRROR: of change events of a database.
.PHONY: simulate
simulate: $(READY) ## simulate crashes, zombies, faulty storage, other writers: no row lost or doubled (SEEDS=10000, SEED=123)
	PYTHONHASHSEED=0 PYTHONPATH=tests $(BIN)/python -m support.simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),1000)) \
	  $(if $(FIRST),--first $(FIRST)) $(if $(STATE),--state) $(if $(GLOBAL),--global) $(if $(MIRROR),--mirror) $(if $(EVENT),--event "$(EVENT)")

# CHAINS: how many, from FIRST on, in turns of seven modes and three formats; SEED: only this one, with its log.
.PHONY: chains
chains: $(READY) ## random versions of schemas while rows flow, with crashes: every row compared (CHAINS=1000, SEED=123)
	PYTHONHASHSEED=0 PYTHONPATH=tests:tools $(BIN)/python -m support.evolution $(if $(SEED),--seed $(SEED),--chains $(or $(CHAINS),210)) \
	  $(if $(FIRST),--first $(FIRST))

.PHONY: chains-real
chains-real: $(READY) java apicurio-registry oracle ## the same with a real registry, and Hudi's Spark readers and writer (CHAINS=1000, SEED=123)
	PYTHONHASHSEED=0 PYTHONPATH=tests:tools $(BIN)/python -m support.evolution --real \
	  $(if $(SEED),--seed $(SEED),--chains $(or $(CHAINS),210)) $(if $(FIRST),--first $(FIRST))

# KILLS: how many faults; SEED repeats those of a run; SOAK_ARGS: see `python -m soak --help`.
.PHONY: soak
soak: $(READY) java connectors kafka-broker oracle ## kill the job again and again under load, then compare every row (KILLS=20 SEED=7)
	PYTHONPATH=tests:tools $(BIN)/python -m soak $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED)) $(SOAK_ARGS)

.PHONY: soak-many
soak-many: $(READY) java connectors kafka-broker oracle ## seven tables of one resource under kills, one of them refused: every row compared (KILLS=20 SEED=7)
	PYTHONPATH=tests:tools $(BIN)/python -m soak.many $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED))

# STEPS of the whole run, SEED repeats them; FOLDER: stays, and a run that ended goes on in it; MINUTES: end before.
.PHONY: turns
turns: $(READY) java oracle ## Hudi's Spark writer and ours in turns on one table, every key checked after each step (STEPS=1000 SEED=1)
	PYTHONPATH=tests $(BIN)/python -m turns $(if $(STEPS),--steps $(STEPS)) $(if $(SEED),--seed $(SEED)) \
	  $(if $(FOLDER),--folder $(FOLDER)) $(if $(MINUTES),--minutes $(MINUTES)) $(TURNS_ARGS)

# DATABASE: postgresql or mariadb; LOOKS: how often all is compared; KILLS, TRANSACTIONS: between two looks; SEED repeats a run.
.PHONY: mirror
mirror: $(READY) java connectors kafka-broker debezium databases oracle ## mirror a database by Debezium under kills, every row compared (DATABASE=mariadb LOOKS=20 KILLS=3)
	PYTHONPATH=tests:tools $(BIN)/python -m mirror $(if $(DATABASE),--database $(DATABASE)) $(if $(LOOKS),--looks $(LOOKS)) \
	  $(if $(KILLS),--kills $(KILLS)) $(if $(TRANSACTIONS),--transactions $(TRANSACTIONS)) $(if $(SEED),--seed $(SEED)) $(MIRROR_ARGS)

##@ Measure it

# REPEATS, ROWS, CASES (names, or all), NAME of the result files; BENCH_ARGS: see `python -m bench --help`.
.PHONY: bench
bench: $(READY) $(CLASS_ARCHIVE) java connectors kafka-broker kafka-spark-3.5 oracle ## benchmarks against Hudi's own writer (CASES=upsert-11-columns ROWS=200000)
	PYTHONPATH=benchmarks:tools:tests $(BIN)/python -m bench $(if $(CASES),--cases $(CASES)) $(if $(ROWS),--rows $(ROWS)) \
	  $(if $(REPEATS),--repeats $(REPEATS)) $(if $(NAME),--name $(NAME)) $(BENCH_ARGS)

# TABLES, RATE: rows a second of all; IDLE, LOAD: seconds; BENCH_ARGS: see `python benchmarks/many_tables.py --help`.
.PHONY: bench-many-tables
bench-many-tables: $(READY) $(CLASS_ARCHIVE) java connectors kafka-broker oracle ## many tables of one resource: CPU while idle, commits under load, memory, after a SIGKILL (TABLES=200 RATE=20000)
	PYTHONPATH=benchmarks:tools:tests $(BIN)/python benchmarks/many_tables.py $(if $(TABLES),--tables $(TABLES)) \
	  $(if $(RATE),--rate $(RATE)) $(if $(IDLE),--idle $(IDLE)) $(if $(LOAD),--load $(LOAD)) $(BENCH_ARGS)

.PHONY: bench-profile
bench-profile: $(READY) $(CLASS_ARCHIVE) java connectors kafka-broker ## a flame graph of our Python workers in one case (CASE=kafka-json NAME=quick; root)
	PYTHONPATH=benchmarks:tools:tests $(BIN)/python -m bench.profile $(if $(CASE),--case $(CASE)) $(if $(ROWS),--rows $(ROWS)) \
	  $(if $(NAME),--name $(NAME))

.PHONY: bench-operator
bench-operator: $(READY) ## the operator with 1,000 resources against a real API server (RESOURCES=100 NAME=quick)
	PYTHONPATH=benchmarks:tools $(BIN)/python -m operator_bench $(if $(RESOURCES),--resources $(RESOURCES)) \
	  $(if $(NAME),--name $(NAME)) $(BENCH_ARGS)

.PHONY: bench-operator-copies
bench-operator-copies: $(READY) ## how the operator follows pods, compared with Kopf's index and the client's informer
	PYTHONPATH=benchmarks:tools $(BIN)/python -m operator_bench.copies $(if $(NAME),--name $(NAME)) $(BENCH_ARGS)

.PHONY: bench-operator-memory
bench-operator-memory: $(READY) ## the operator's memory with 5,000 idle resources, and beside large objects of a tenant
	PYTHONPATH=benchmarks:tools $(BIN)/python -m operator_bench.memory $(if $(RESOURCES),--resources $(RESOURCES)) \
	  $(if $(NAME),--name $(NAME)) $(BENCH_ARGS)

.PHONY: bench-starts
bench-starts: $(READY) java connectors kafka-broker ## from `kubectl apply`, and from a killed driver, to the next commit, on one node (REPEATS=5 NAME=quick)
	PYTHONPATH=benchmarks:tools:tests $(BIN)/python -m operator_bench.starts $(if $(REPEATS),--repeats $(REPEATS)) \
	  $(if $(NAME),--name $(NAME)) $(BENCH_ARGS)

##@ Change it

.PHONY: pictures
pictures: $(READY) java prometheus ## draw the README's pictures again, from a pipeline that runs
	PYTHONPATH=tools $(BIN)/python -m pictures

.PHONY: venv
venv: $(READY) ## install the development environment in .venv

.PHONY: format
format: $(READY) ## format and fix with ruff
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: crds
crds: $(READY) ## generate crds/, the chart's copy of it and docs/reference.md from the spec model
	mkdir -p crds
	$(BIN)/python -m bucketingest.spec.crd > crds/.bucketingests.yaml
	mv crds/.bucketingests.yaml crds/bucketingests.yaml
	cp crds/bucketingests.yaml charts/bucketingest/files/bucketingests.yaml
	PYTHONPATH=tools $(BIN)/python -m docsite.reference > docs/.reference.md
	mv docs/.reference.md docs/reference.md

.PHONY: docs
docs: $(READY) ## build the documentation site into build/site; a warning is an error
	PYTHONPATH=tools $(BIN)/python -m docsite

.PHONY: monitoring
monitoring: $(READY) ## generate alerts and dashboards into charts/bucketingest/files/ from tools/monitoring
	PYTHONPATH=tools $(BIN)/python -m monitoring

COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
  --no-annotate --no-emit-package bucketingest $(LOCK_ARGS)
.PHONY: lock
lock: | $(UV) ## lock requirements/*.txt again, keep versions that still fit (LOCK_ARGS=--upgrade: newest)
	$(COMPILE) sparkjob/pyproject.toml operator/pyproject.toml requirements/dev.in --extra spark --extra cli -o requirements/dev.txt
	$(COMPILE) sparkjob/pyproject.toml --extra spark --extra cli --extra audit -c requirements/dev.txt -o requirements/job.txt
	$(COMPILE) operator/pyproject.toml -c requirements/dev.txt -o requirements/operator.txt
	$(COMPILE) requirements/build.in -c requirements/dev.txt -o requirements/build.txt
	$(COMPILE) requirements/release.in -o requirements/release.txt
	$(COMPILE) requirements/oracle.in -o requirements/oracle.txt
	$(MAKE) --no-print-directory check-lock

# Of each package there is a wheel for both kinds of processors, with a locked hash; only PySpark is built from source.
.PHONY: check-lock
check-lock: | $(UV) ## the locked packages of both images can be installed on amd64 and on arm64
	for image in operator job; do for machine in x86_64 aarch64; do \
	  $(UV) pip install --dry-run --quiet --require-hashes --no-deps --only-binary :all: --no-binary pyspark --python-version 3.11 \
	    --python-platform $$machine-manylinux_2_28 --target build/not-installed -r requirements/$$image.txt || exit 1; \
	done; done

$(RELEASE_VENV)/.ready: requirements/release.txt | $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) $(RELEASE_VENV)
	$(UV) pip sync --quiet --require-hashes --python $(RELEASE_VENV)/bin/python $<
	touch $@

# IMAGES=1: also both images, for this machine's architecture.
.PHONY: release
release: $(READY) $(RELEASE_VENV)/.ready helm ## make a release into build/release: wheels, chart, bills of materials, checksums (IMAGES=1)
	PYTHONPATH=tools $(BIN)/python -m release make --out build/release --cyclonedx $(RELEASE_VENV)/bin/cyclonedx-py $(if $(IMAGES),--images)

.PHONY: version
version: $(READY) ## write the version into every file that has it (VERSION=0.3.0)
	$(if $(VERSION),,$(error name it: make version VERSION=0.3.0))
	PYTHONPATH=tools $(BIN)/python -m release version $(VERSION)

.PHONY: clean
clean: ## remove all generated files from the work tree, also .venv
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis spark-warehouse build
	find . -name __pycache__ -prune -exec rm -rf {} +

.PHONY: clean-cache
clean-cache: ## remove downloads and builds from the cache folder
	chmod -R u+w $(CACHE) 2>/dev/null || true
	rm -rf $(CACHE)

##@ Download and build, into ~/.cache/bucketingest

.PHONY: test-deps
test-deps: java connectors kafka-broker apicurio-registry trino debezium databases kerberos versitygw prometheus oracle helm $(CLASS_ARCHIVE) ## all of these that the tests need

.PHONY: connectors
connectors: $(CONNECTORS)/.ready ## jars: Kafka source and Avro for PySpark 4.2

.PHONY: kafka-broker
kafka-broker: $(KAFKA_BROKER)/.ready ## jars: a Kafka broker

.PHONY: apicurio-registry
apicurio-registry: $(APICURIO_REGISTRY)/.ready ## a schema registry

.PHONY: trino
trino: $(TRINO)/.ready ## a Trino server; it runs on Java 25

.PHONY: debezium
debezium: $(DEBEZIUM)/.ready ## Debezium Server; it runs on Java 25

.PHONY: databases
databases: $(DATABASES)/.ready ## PostgreSQL and MariaDB, unpacked from Debian's packages, not installed

.PHONY: kerberos
kerberos: $(KERBEROS)/.ready ## a Kerberos server, unpacked from Debian's packages, not installed

.PHONY: kafka-spark-3.5
kafka-spark-3.5: $(KAFKA_SPARK_3_5)/.ready ## jars: Kafka source and from_avro for PySpark 3.5 (benchmarks of Hudi's writer)

.PHONY: hudi-bundle
hudi-bundle: $(HUDI_BUNDLE) ## jar: Apache Hudi's Spark bundle

.PHONY: spark-protobuf
spark-protobuf: $(SPARK_PROTOBUF)/.ready ## jar: Spark's from_protobuf, which judges ours

.PHONY: versitygw
versitygw: $(VERSITYGW) ## an S3 server, built with Go

.PHONY: prometheus
prometheus: $(PROMETHEUS)/.ready ## Prometheus and promtool, unpacked from Debian's package, not installed

.PHONY: helm
helm: $(READY) ## Helm, built with Go
	$(DEVCLUSTER) setup --only helm

.PHONY: oracle oracle-venv
oracle: oracle-venv hudi-bundle spark-protobuf ## Hudi's own reader and writer: its bundle, and PySpark 3.5 in its own environment
oracle-venv: $(ORACLE_VENV)/.ready

# What is in the cache folder has its version in its name. Where it is there it stays as it is, whatever the times of a
# checkout's files are: processes of another checkout may be reading it. So these rules have order-only prerequisites.

# The dependencies of a pom as one folder of jars.
define copy_jars
	rm -rf $(@D)
	mvn -B -q -f $(firstword $|) dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(@D)
	touch $@
endef
# With it a JVM of the tests starts with a third less work. Without it they are only slower.
$(CLASS_ARCHIVE): $(READY) sparkjob/container/class_archive.py | java
	$(BIN)/python sparkjob/container/class_archive.py $(CURDIR)/$@ || echo "no class archive: Spark's JVMs start slower"
$(CONNECTORS)/.ready: | sparkjob/connectors/pom.xml mvn
	$(copy_jars)
$(KAFKA_BROKER)/.ready: | tools/jars/kafka-broker/pom.xml mvn
	$(copy_jars)
$(APICURIO_REGISTRY)/.ready: | tools/jars/apicurio-registry/pom.xml mvn
	rm -rf $(@D)
	mvn -B -q -f $(firstword $|) dependency:unpack-dependencies -DoutputDirectory=$(@D)
	touch $@
# Its archive has fifty plugins, with links between their jars: only tar unpacks these.
$(TRINO)/.ready: | tools/jars/trino/pom.xml mvn
	rm -rf $(@D)
	mkdir -p $(@D)/all $(@D)/plugin
	mvn -B -q -f $(firstword $|) dependency:copy-dependencies -DoutputDirectory=$(@D)/all
	tar -xzf $(@D)/all/*.tar.gz -C $(@D)/all --strip-components=1
	mv $(@D)/all/lib $(@D)
	mv $(@D)/all/plugin/hudi $(@D)/all/plugin/iceberg $(@D)/plugin
	rm -rf $(@D)/all
	touch $@
# Of its archive two large libraries of others are left out.
$(DEBEZIUM)/.ready: | tools/jars/debezium/pom.xml mvn
	rm -rf $(@D)
	mkdir -p $(@D)
	mvn -B -q -f $(firstword $|) dependency:copy-dependencies -DoutputDirectory=$(@D)/all
	tar -xzf $(@D)/all/*.tar.gz -C $(@D) --strip-components=1 --wildcards \
	  --exclude='rocketmq-rocksdb-*' --exclude='vitess-*' 'debezium-server/*-runner.jar' 'debezium-server/lib/*'
	rm -rf $(@D)/all
	touch $@
$(KAFKA_SPARK_3_5)/.ready: | tools/jars/kafka-spark-3.5/pom.xml mvn
	$(copy_jars)
$(SPARK_PROTOBUF)/.ready: | tools/jars/spark-protobuf-3.4/pom.xml mvn
	$(copy_jars)
$(HUDI_BUNDLE): | tools/jars/hudi-spark-3.5/pom.xml mvn
	mvn -B -q -f $(firstword $|) dependency:copy-dependencies -DoutputDirectory=$(@D)
	touch $@

$(VERSITYGW): | tools/versitygw/go.mod tools/versitygw/go.sum
	@command -v go >/dev/null || { echo "Go 1.21 or newer is missing: see go.dev/dl" >&2; exit 1; }
	mkdir -p $(@D)
	cd tools/versitygw && CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags '-s -w' -o $@ github.com/versity/versitygw/cmd/versitygw

# Binaries on the PATH are used. Otherwise the package is unpacked, not installed: installing would start a server.
$(PROMETHEUS)/.ready:
	rm -rf $(@D)
	mkdir -p $(@D)/usr/bin
	if prometheus=$$(command -v prometheus) && promtool=$$(command -v promtool); then \
	  ln -s "$$prometheus" "$$promtool" $(@D)/usr/bin/; \
	else \
	  cd $(@D) && apt-get -o APT::Sandbox::User=root download -q prometheus || { echo "Prometheus and promtool are missing." \
	    "On Debian or Ubuntu: sudo apt-get update; elsewhere install them" >&2; exit 1; }; \
	  dpkg -x prometheus_*.deb . && rm prometheus_*.deb; \
	fi
	$(@D)/usr/bin/promtool --version >/dev/null
	touch $@

# apt-get names the packages that this machine lacks, too; dpkg unpacks them without their start scripts.
define unpack_packages
	rm -rf $(@D)
	mkdir -p $(@D)/all/partial
	cd $(@D) && apt-get -o APT::Sandbox::User=root -o Debug::NoLocking=1 -o Dir::Cache::archives=$(@D)/all -q -y --download-only \
	  --no-install-recommends --reinstall install $(1) >all/log || { cat all/log >&2; echo \
	  "These are missing: $(1). On Debian 12: sudo apt-get update" >&2; exit 1; }
	cd $(@D) && for package in all/*.deb; do dpkg -x "$$package" .; done
	rm -rf $(@D)/all
	touch $@
endef
$(DATABASES)/.ready:
	$(call unpack_packages,postgresql-15 mariadb-server-core)
$(KERBEROS)/.ready:
	$(call unpack_packages,krb5-kdc krb5-admin-server libgssapi-krb5-2)

$(ORACLE_VENV)/.ready: | requirements/oracle.txt $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) $(@D)
	$(UV) pip sync --quiet --require-hashes --python $(@D)/bin/python $(firstword $|)
	ln -sfn $(@D) $(CACHE)/oracle
	touch $@

$(READY): requirements/dev.txt sparkjob/pyproject.toml operator/pyproject.toml | $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) $(VENV)
	$(UV) pip sync --quiet --require-hashes --python $(BIN)/python requirements/dev.txt
	$(UV) pip install --quiet --no-deps --no-build-isolation --python $(BIN)/python -e sparkjob -e operator
	touch $@

$(CACHE)/uv-$(UV_VERSION)/bin/uv:
	$(PYTHON) -m venv $(CACHE)/uv-$(UV_VERSION)
	$(CACHE)/uv-$(UV_VERSION)/bin/pip install --quiet uv==$(UV_VERSION)

.PHONY: java
java:
	@version=$$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'); \
	[ "$${version:-0}" -ge 17 ] || { echo "Java 17 or newer is missing: Spark runs on it." \
	  "On Debian or Ubuntu: sudo apt-get install openjdk-17-jre-headless" >&2; exit 1; }

.PHONY: mvn
mvn:
	@command -v mvn >/dev/null || { echo "Maven is missing. On Debian or Ubuntu: sudo apt-get install maven" >&2; exit 1; }

.PHONY: help
help: ## show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9.-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile
