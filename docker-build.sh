#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds the container image `ipybox` with Docker. Its user has your numbers, so that the files in
# your workspaces belong to you. The wheel comes from dist; if there is none, it is made first,
# which needs Debian.
#
# usage: ./docker-build.sh [OPTION-OF-DOCKER-BUILD]...
#        ./docker-build.sh --build-arg PACKAGES="numpy pandas matplotlib"

set -eu
cd "$(dirname "$0")"

if ! command -v docker >/dev/null; then
    echo "docker-build.sh: the program docker is not in PATH: install Docker" >&2
    exit 127
fi
if ! ls dist/ipybox-*.whl >/dev/null 2>&1; then
    if ! command -v apt-get >/dev/null; then
        echo "docker-build.sh: there is no wheel in dist, and only Debian can make it. Put" \
            "ipybox-….whl of a release there, for the processor of your Docker: _x86_64.whl or" \
            "_aarch64.whl" >&2
        exit 1
    fi
    make wheel
fi
# An old one stays there until it is removed.
echo "docker-build.sh: the wheels in dist:" dist/ipybox-*.whl >&2

# With sudo, those of the user who called it. Root's own workspaces need an ordinary user, too.
user=${SUDO_UID:-$(id -u)} group=${SUDO_GID:-$(id -g)}
if [ "$user" = 0 ]; then
    user=1000 group=1000
    echo "docker-build.sh: you are root, so the image's user has the number 1000:" \
        "it must be able to write your workspaces" >&2
fi
exec docker build --tag ipybox --build-arg "UID=$user" --build-arg "GID=$group" \
    --file docker/Dockerfile "$@" .
