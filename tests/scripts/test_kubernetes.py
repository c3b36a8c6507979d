# SPDX-License-Identifier: Apache-2.0
"""docker/kubernetes.yaml: it is valid for each version of Kubernetes that can run it, and its pod
is what docs/how-to/docker.md says."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import harness
import pytest

MANIFEST = harness.ROOT / "docker/kubernetes.yaml"
DOCUMENT = harness.ROOT / "docs/how-to/docker.md"
PYTHON = harness.CACHE / "kubernetes/bin/python"
OLDEST = "1.33"

READ = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))"
VERSIONS = "from kubernetes_validate import utils; print(*utils.all_versions())"


def python(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [harness.existing(PYTHON), *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def validate(version: str, path: Path = MANIFEST) -> subprocess.CompletedProcess[str]:
    return python("-m", "kubernetes_validate", "--strict", "-k", version, str(path))


@pytest.fixture(scope="module")
def pod() -> dict[str, Any]:
    done = python("-c", READ, text=MANIFEST.read_text())
    pod, service = json.loads(done.stdout)
    assert (pod["kind"], service["kind"]) == ("Pod", "Service")
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    return pod


def test_it_is_valid():
    """All versions from that on which the document names."""
    known = [version.rpartition(".")[0] for version in python("-c", VERSIONS).stdout.split()]
    versions = known[known.index(OLDEST) :]
    assert len(versions) > 1
    for version in versions:
        done = validate(version)
        assert done.returncode == 0 and done.stdout.count(" passed for ") == 2, done


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("hostUsers: false", "hostUsers: no-one", "hostUsers"),
        ("procMount:", "procMounts:", "'procMounts' was unexpected"),
        ("containerPort: 8901", "containerPort: http", "containerPort"),
        ("- port: 8901", "- ports: 8901", "'port' is a required property"),
    ],
)
def test_mistakes_are_found(tmp_path, right, wrong, complaint):
    text = MANIFEST.read_text()
    assert text.count(right) == 1
    broken = tmp_path / "kubernetes.yaml"
    broken.write_text(text.replace(right, wrong))
    done = validate(OLDEST, broken)
    assert done.returncode != 0 and complaint in done.stdout, done


def test_it_is_not_for_older_versions():
    """These do not know a field of it, so they would ignore it."""
    assert "appArmorProfile" in validate("1.29").stdout


def test_documents_name_the_oldest_version():
    for path in (DOCUMENT, MANIFEST):
        text = re.sub(r"\s+#?\s*", " ", path.read_text())
        assert f"needs Kubernetes {OLDEST} or later" in text, path


def test_sandboxes_can_be_made(pod):
    """What sandboxes need, and that a pod's own user namespace makes it harmless."""
    spec = pod["spec"]
    (container,) = spec["containers"]
    assert container["securityContext"]["procMount"] == "Unmasked"
    assert spec["hostUsers"] is False
    profiles = [spec["securityContext"][f"{name}Profile"] for name in ("seccomp", "appArmor")]
    assert profiles == [
        {"type": "Localhost", "localhostProfile": "ipybox.json"},
        {"type": "Localhost", "localhostProfile": "ipybox-container"},
    ]
    profile = (harness.ROOT / "docker/apparmor").read_text()
    assert "\nprofile ipybox-container " in profile


def test_nothing_else_is_allowed(pod):
    """No capability, no privileges, an ordinary user, a root that cannot be written."""
    spec = pod["spec"]
    (container,) = spec["containers"]
    context = container["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 1000
    assert spec["automountServiceAccountToken"] is False
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        assert not spec.get(name)
    assert "privileged" not in context


def test_what_ipybox_writes_can_be_written(pod):
    """The document names these directories; each is a volume with a limit."""
    spec = pod["spec"]
    (container,) = spec["containers"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert set(mounts) == {"/app/workspace", "/home/ipybox", "/tmp"}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert sorted(volumes) == sorted(mounts.values())
    assert all(volume["emptyDir"]["sizeLimit"] for volume in volumes.values())


def test_probes_and_service_use_the_port_of_serve(pod):
    """That of the image's health check is 8901, too. Its own wait is not longer than a probe's."""
    (container,) = pod["spec"]["containers"]
    assert container["args"][0] == "serve"
    assert [port["containerPort"] for port in container["ports"]] == [8901]
    healthy = (harness.ROOT / "docker/healthy").read_text()
    assert "${1:-8901}" in healthy
    (wait,) = re.findall(r"read -r -t (\d+) ", healthy)
    for name in ("startup", "readiness", "liveness"):
        probe = container[f"{name}Probe"]
        assert probe["exec"] == {"command": ["ipybox-healthy"]}
        assert probe["timeoutSeconds"] >= int(wait)
