"""What would be started: exact words and versions, safe values, no secrets where others look."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.install.manifests.samples import PLUGIN, Json, npm, oci, plugin_folder, read, remote
from trunkline.config.server import ServerSpec
from trunkline.errors import ManifestError
from trunkline.install.manifests.files import open_manifest
from trunkline.install.manifests.launch import choose, notes, plan, questions

PINNED = "a" * 64
SECRET: Json = {"name": "KEY", "isSecret": True, "isRequired": True}


def argv(spec: ServerSpec) -> list[str]:
    return [spec.command, *spec.args]


def named(name: str, **rest: Any) -> Json:
    return {"type": "named", "name": name, **rest}


def positional(**rest: Any) -> Json:
    return {"type": "positional", **rest}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (npm(), ["npx", "-y", "@acme/weather@1.2.3"]),
        (npm(runtimeHint="npx", runtimeArguments=[positional(value="-y")]), ["npx", "-y", "@acme/weather@1.2.3"]),
        (npm(registryType="pypi", identifier="weather-mcp"), ["uvx", "weather-mcp@1.2.3"]),
        (npm(registryType="pypi", identifier="weather-mcp[cli]"), ["uvx", "weather-mcp[cli]@1.2.3"]),
        (
            npm(registryType="pypi", identifier="cmd", runtimeArguments=[named("--from", value="weather-mcp")]),
            ["uvx", "--from=weather-mcp==1.2.3", "cmd"],
        ),
        (
            npm(identifier="cmd", runtimeArguments=[named("-p", value="@acme/weather")]),
            ["npx", "-y", "-p", "@acme/weather@1.2.3", "cmd"],
        ),
        (npm(registryType="pypi", identifier="a-b", runtimeHint="python"), ["python", "-m", "a_b"]),
        (oci(), ["docker", "run", "-i", "--rm", "acme/weather:1.2.3"]),
        (oci(identifier="host:5000/acme/w:7"), ["docker", "run", "-i", "--rm", "host:5000/acme/w:7"]),
        (oci(identifier="host:5000/acme/w"), ["docker", "run", "-i", "--rm", "host:5000/acme/w:1.2.3"]),
        (oci(identifier=f"acme/w@sha256:{PINNED}"), ["docker", "run", "-i", "--rm", f"acme/w@sha256:{PINNED}"]),
        (
            {**PLUGIN, "packages": [{"runtime": "npx", "command": ["npx", "-y", "@a/b@2.0.0", "run"]}]},
            ["npx", "-y", "@a/b@2.0.0", "run"],
        ),
        ({**PLUGIN, "packages": [{"runtime": "uvx", "command": ["a==3.1", "--x"]}]}, ["uvx", "a@3.1", "--x"]),
        (
            {**PLUGIN, "packages": [{"runtime": "python", "command": ["-m", "mod.main", "-v"]}]},
            ["python", "-m", "mod.main", "-v"],
        ),
        ({**PLUGIN, "packages": [{"command": ["weatherd", "--stdio"]}]}, ["weatherd", "--stdio"]),
        ({"name": "a", "version": "1.0", "runtime": "uvx", "command": ["a"]}, ["uvx", "a@1.0"]),
        (npm(args=["serve", "--fast"]), ["npx", "-y", "@acme/weather@1.2.3", "serve", "--fast"]),
    ],
)
def test_the_exact_command_of_every_runtime(value: Json, words: list[str]) -> None:
    assert argv(plan(read(value), {})) == words


def test_the_plugin_of_the_document_gets_its_command_and_its_variable() -> None:
    spec = plan(read(PLUGIN), {"GITHUB_TOKEN": "t0ken"})

    assert argv(spec) == ["uvx", "mcp-server-github@1.0.0"]
    assert (spec.env, spec.name) == ({"GITHUB_TOKEN": "t0ken"}, "github")
    assert "t0ken" not in repr(spec)


def test_files_beside_the_manifest_are_started_there(tmp_path: Path) -> None:
    folder = plugin_folder(tmp_path / "p", "--flag")
    (folder / "dist").mkdir()
    (folder / "dist" / "index.js").touch()
    node = read({"name": "a", "runtime": "node", "command": ["dist/index.js"]})

    python = plan(open_manifest(folder), {})
    script = plan(replace(node, folder=folder), {})

    assert argv(python) == ["python3", str(folder / "server.py"), "--flag"]
    assert (argv(script), script.cwd) == (["node", str(folder / "dist" / "index.js")], str(folder))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (npm(version="latest"), "no exact version"),
        (npm(version="^1.2.3"), "no exact version"),
        (npm(version="1.x"), "no exact version"),
        (npm(version="next"), "no exact version"),
        ({**npm(version=""), "version": ""}, "no exact version"),
        (oci(identifier="acme/w:latest"), "no exact tag"),
        (oci(version="latest"), "no exact tag"),
        (npm(identifier="--registry=https://evil.example"), "not the name of a package"),
        (npm(identifier="git+https://evil.example/x"), "not the name of a package"),
        (npm(registryType="pypi", identifier="-e ."), "not the name of a package"),
        (oci(identifier="--privileged"), "not the name of an image"),
        (oci(identifier="acme/w -v /:/host"), "not the name of an image"),
        (npm(registryType="nuget", identifier="A.B"), "packages for .NET are not supported"),
        (npm(runtimeHint="dnx"), "packages for .NET are not supported"),
        (npm(registryType="mcpb", identifier="https://h/x.mcpb"), "bundles are not supported"),
        (npm(runtimeHint="/bin/sh"), "cannot be started by '/bin/sh'"),
        (npm(registryType="floppy"), "cannot be started by 'floppy'"),
        (npm(fileSha256=PINNED), "a certain SHA-256"),
        (npm(transport={"type": "sse", "url": "http://localhost:{port}"}), "Start it yourself"),
        (npm(registryType="pypi", identifier="a; touch x", runtimeHint="python"), "not the name of a Python module"),
        ({"name": "a", "command": ["sh", "-c", "touch canary"]}, "which runs whatever it is told"),
        ({"name": "a", "command": ["-x"]}, "not a program"),
        ({"name": "a", "runtime": "node", "command": ["x.js"]}, "came from elsewhere"),
        ({"name": "a", "command": ["./x"]}, "came from elsewhere"),
        ({"name": "a"}, "neither packages nor remotes"),
        (npm(environmentVariables=[{"name": "A-B"}]), "cannot be an environment variable"),
    ],
)
def test_what_cannot_be_started_safely_is_refused_with_the_reason(value: Json, reason: str) -> None:
    with pytest.raises(ManifestError) as caught:
        plan(read(value), {})

    assert reason in str(caught.value)


@pytest.mark.parametrize("word", ["../x.py", "/etc/passwd", "link.py", "up/x.py", "missing.py", "."])
@pytest.mark.parametrize("runtime", ["python3", "node", ""])
def test_a_plugin_starts_nothing_outside_its_folder(word: str, runtime: str, tmp_path: Path) -> None:
    folder = plugin_folder(tmp_path / "p", runtime=runtime, command=[word if runtime else f"./{word}"])
    (tmp_path / "x.py").touch()
    (folder / "link.py").symlink_to(tmp_path / "x.py")
    (folder / "up").symlink_to(tmp_path)

    with pytest.raises(ManifestError):
        plan(open_manifest(folder), {})


def test_arguments_come_in_their_order_with_defaults_and_braces() -> None:
    manifest = read(
        oci(
            runtimeArguments=[
                named(
                    "--mount",
                    value="type=bind,src={source},dst={target}",
                    isRepeated=True,
                    variables={"source": {"isRequired": True, "format": "filepath"}, "target": {"default": "/project"}},
                )
            ],
            packageArguments=[
                positional(value="serve"),
                named("--port", format="number", default="80"),
                named("--verbose"),
                named("--read-only", format="boolean"),
                named("--left-out", valueHint="x", placeholder="y"),
                positional(valueHint="folder", isRepeated=True),
                positional(value="{unknown}"),
            ],
        )
    )

    answers = {"source": ["/a b", "/c"], "--read-only": "true", "folder": ["one", "two"]}

    assert argv(plan(manifest, answers))[4:] == [
        "--mount=type=bind,src=/a b,dst=/project",
        "--mount=type=bind,src=/c,dst=/project",
        "acme/weather:1.2.3",
        "serve",
        "--port=80",
        "--verbose",
        "--read-only",
        "one",
        "two",
        "{unknown}",
    ]


def test_what_stands_in_braces_is_put_in_once() -> None:
    manifest = read(npm(packageArguments=[positional(value="{a}{b}", variables={"a": {}, "b": {}})]))

    assert argv(plan(manifest, {"a": "{b}", "b": "x"}))[-1] == "{b}x"


def test_docker_gets_variables_by_name_and_never_their_values() -> None:
    manifest = read(
        oci(
            environmentVariables=[SECRET, {"name": "LEVEL", "value": "info"}, {"name": "UNSET"}],
            runtimeArguments=[
                named("-e", value="TOKEN={token}", variables={"token": {"isSecret": True, "isRequired": True}}),
                named("--env", value="PASSED"),
                named("-e", value="LEFT_OUT={x}", variables={"x": {}}),
            ],
        )
    )

    spec = plan(manifest, {"KEY": "s3cret-1", "token": "s3cret-2"})

    assert argv(spec) == [
        *("docker", "run", "-i", "--rm", "-e", "KEY", "-e", "LEVEL", "-e", "TOKEN", "-e", "PASSED"),
        "acme/weather:1.2.3",
    ]
    assert spec.env == {"KEY": "s3cret-1", "LEVEL": "info", "TOKEN": "s3cret-2"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"packageArguments": [named("--key", isSecret=True)]},
        {"packageArguments": [positional(valueHint="key", isSecret=True)]},
        {"packageArguments": [named("--key", value="{k}", variables={"k": {"isSecret": True}})]},
        {"runtimeArguments": [named("-e", value="K={k}", variables={"k": {"isSecret": True}})]},
        {"packageArguments": [named("-e", value="K={k}", variables={"k": {"isSecret": True}})], "registryType": "oci"},
        {"runtimeArguments": [positional(value="-eK={k}", variables={"k": {"isSecret": True}})], "registryType": "oci"},
    ],
)
def test_a_secret_in_an_argument_is_refused_with_the_reason(arguments: Json) -> None:
    identifier = "acme/weather" if "registryType" in arguments else "weather"

    with pytest.raises(ManifestError, match="everyone on the machine can read"):
        plan(read(npm(identifier=identifier, **arguments)), {})


def test_an_answer_that_refers_to_a_secret_stays_out_of_arguments_too() -> None:
    manifest = read(npm(packageArguments=[named("--key", valueHint="key")]))

    with pytest.raises(ManifestError, match="would hold a secret"):
        plan(manifest, {"--key": "${secret:a}"})


@pytest.mark.parametrize(
    "where",
    [
        npm(environmentVariables=[{"name": "A", "value": "${env:AWS_SECRET_ACCESS_KEY}"}]),
        npm(environmentVariables=[{"name": "A", "default": "${AWS_SECRET_ACCESS_KEY}"}]),
        npm(environmentVariables=[{"name": "A", "choices": ["${secret:github.TOKEN}"]}]),
        npm(environmentVariables=[{"name": "A", "value": "{b}", "variables": {"b": {"default": "${env:X}"}}}]),
        npm(packageArguments=[positional(value="${env:X}")]),
        {"name": "a", "command": ["x", "${env:X}"]},
        remote("https://h.example/${env:X}"),
        remote("https://h.example/", headers=[{"name": "X-A", "value": "${secret:github.TOKEN}"}]),
    ],
)
def test_a_manifest_cannot_reach_for_variables_of_whoever_adds_it(where: Json) -> None:
    with pytest.raises(ManifestError, match="refers to variables of yours"):
        plan(read(where), {})


def test_everything_that_is_missing_wrong_or_unknown_is_named_together() -> None:
    manifest = read(
        npm(
            environmentVariables=[SECRET, {"name": "PORT", "format": "number"}, {"name": "U", "choices": ["c", "f"]}],
            packageArguments=[positional(valueHint="folder", isRequired=True)],
        )
    )

    with pytest.raises(ManifestError) as caught:
        plan(manifest, {"PORT": "s3cret", "U": "s3cret"})
    with pytest.raises(ManifestError, match="does not ask for Kex"):
        plan(manifest, {"Kex": "1"})

    said = str(caught.value)
    assert "It needs folder, KEY." in said
    assert "PORT must be a number." in said
    assert "U must be one of: c, f." in said
    assert "s3cret" not in said


def test_questions_are_asked_once_and_strictly() -> None:
    manifest = read(
        npm(
            packageArguments=[named("--region", value="{region}", variables={"region": {"description": "Where"}})],
            environmentVariables=[
                {"name": "A", "value": "fixed"},
                {"name": "REGION", "value": "{region}", "variables": {"region": {"isRequired": True}}},
                SECRET,
            ],
        )
    )

    asked = questions(manifest)

    assert [(one.name, one.required, one.secret) for one in asked] == [("region", True, False), ("KEY", True, True)]
    assert asked[0].description == "Where"


def test_a_remote_gets_its_address_and_headers() -> None:
    manifest = read(
        remote(
            "https://{tenant}.h.example/{path}?x={q}",
            headers=[
                {
                    "name": "Authorization",
                    "value": "Bearer {token}",
                    "variables": {"token": {"isSecret": True, "isRequired": True}},
                },
                {"name": "X-Region", "default": "eu"},
                {"name": "X-Left-Out", "value": "{y}", "variables": {"y": {}}},
            ],
            variables={"tenant": {}, "path": {}, "q": {}},
        )
    )

    spec = plan(manifest, {"tenant": "acme", "path": "a/../b", "q": "1&y=2#z", "token": "t"})

    assert spec.url == "https://acme.h.example/a%2F..%2Fb?x=1%26y%3D2%23z"
    assert spec.headers == {"Authorization": "Bearer t", "X-Region": "eu"}
    assert (spec.kind, spec.command) == ("http", "")


@pytest.mark.parametrize(
    ("value", "answers", "reason"),
    [
        (remote("https://{t}.h.example/", variables={"t": {}}), {"t": "evil.example/"}, "an odd host"),
        (remote("https://{t}.h.example/", variables={"t": {}}), {"t": "user@evil"}, "an odd host"),
        (remote("https://{t}.h.example/", variables={"t": {}}), {}, "It needs t."),
        (remote("https://{t}.h.example/"), {}, "names 't', which nothing defines"),
        (remote("{base}/mcp", variables={"base": {}}), {"base": "file:///etc"}, "not one of the web"),
        (remote("https://h.example/?key={k}", variables={"k": {"isSecret": True}}), {"k": "s"}, "would hold a secret"),
        (remote("ftp://h.example"), {}, "not one of the web"),
        (remote("https://h", headers=[{"name": "X-A"}]), {"X-A": "a\r\nX-Evil: 1"}, "a character that headers cannot"),
    ],
)
def test_a_remote_cannot_be_led_elsewhere(value: Json, answers: dict[str, str], reason: str) -> None:
    with pytest.raises(ManifestError) as caught:
        plan(read(value), answers)

    assert reason in str(caught.value)


def test_an_address_may_be_an_answer_as_a_whole() -> None:
    assert (
        plan(read(remote("{base}/mcp", variables={"base": {}})), {"base": "https://h.example"}).url
        == "https://h.example/mcp"
    )


def test_the_first_that_works_is_chosen_and_another_may_be_wanted() -> None:
    value = {**npm(registryType="nuget"), **remote("https://h.example/mcp")}
    value["packages"] = [*npm(registryType="nuget")["packages"], *oci()["packages"], *npm()["packages"]]
    manifest = read(value)

    assert choose(manifest) is manifest.packages[1]
    assert choose(manifest, "npm") is choose(manifest, "3") is manifest.packages[2]
    assert choose(manifest, "remote") is manifest.remotes[0]
    with pytest.raises(ManifestError, match=r"\.NET"):
        choose(manifest, "nuget")
    with pytest.raises(ManifestError, match="nothing called 'snap'"):
        choose(manifest, "snap")


def test_what_a_person_should_know_is_said() -> None:
    elsewhere = read(npm(registryBaseUrl="https://packages.example"))
    python = read(npm(registryType="pypi", identifier="a", runtimeHint="python"))

    assert "https://packages.example" in notes(choose(elsewhere))[0]
    assert "the version that is installed" in notes(choose(python))[0]
