# opensearch-chaos in an image; docs/image.md says how it is built and called.
#
#   docker build --tag opensearch-chaos .
#
# BASE is Debian or a kin of it. What it has of PACKAGES is not installed again. With a folder wheelhouse/ beside this
# file, which holds every wheel (pip wheel --wheel-dir wheelhouse . by the same Python), pip asks no index.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS system
ARG PACKAGES="ca-certificates e2fsprogs git mount openssh-client procps python3 python3-venv"
RUN dpkg-query --show ${PACKAGES} >/dev/null 2>&1 || { \
        apt-get update && apt-get install --yes --no-install-recommends ${PACKAGES} && rm -rf /var/lib/apt/lists/*; }

FROM system AS build
ARG EXTRAS=""
COPY . /source
RUN python3 -m venv /opt/opensearch-chaos
RUN if [ -d /source/wheelhouse ]; then cp -r /source/wheelhouse /wheels && options=--no-index; \
    else python3 -m venv /tmp/pip && /tmp/pip/bin/pip wheel --quiet --no-deps --wheel-dir /wheels /source; fi \
    && /opt/opensearch-chaos/bin/pip install --quiet --no-cache-dir ${options:-} --find-links /wheels \
        "$(ls /wheels/opensearch_chaos-*.whl)${EXTRAS}"

FROM system
RUN useradd --create-home --uid 10001 chaos && install --directory --owner chaos /work
COPY --from=build /opt/opensearch-chaos /opt/opensearch-chaos
ENV PATH=/opt/opensearch-chaos/bin:$PATH
WORKDIR /work
# Not root: enough for clusters that exist. A lab in the container needs --user root --privileged.
USER chaos
ENTRYPOINT ["opensearch-chaos"]
CMD ["--help"]
