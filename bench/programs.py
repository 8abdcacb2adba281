"""What programs over tools save: 20 jobs on real servers, solved step by step and as one program.

    python bench/programs.py

The servers are those of `make test` (files, memory, git, time); without them there is nothing to measure. Step by step,
a model writes the arguments of each call and reads its result; with a program it writes the program and reads its value.
The CPU is that of this process, where the hub is.
"""

# ruff: noqa: E501 - programs are as long as they are

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import statistics
import subprocess
import tempfile
import textwrap
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from trunkline import Config, Hub, ServerSpec, open_hub
from trunkline.tools.tokens import estimated

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / ".tools"
SMALLEST = os.environ.get("BENCH") == "smallest"
Json = dict[str, Any]

READ = "(await files__read_text_file(path=f'{folder}/%s'))['content']"
EACH = """
import asyncio
async def one(n):
    return (await files__read_text_file(path=f'{folder}/log{n}.txt'))['content']
texts = await asyncio.gather(*[one(n) for n in range(8)])
"""
GRAPH = "graph = await memory__read_graph()\n"
LOG = "log = await git__git_log(repo_path=repo, max_count=40)\n"
COMMITS = LOG + 'hashes = re.findall(r"Commit: \'?([0-9a-f]{40})", str(log))\n'
JOBS: dict[str, str] = {
    "errors in all logs": EACH + "result = sum(text.count('ERROR') for text in texts)",
    "the slowest request": EACH
    + "import re\nresult = max(int(n) for text in texts for n in re.findall(r'took (\\d+) ms', text))",
    "average time": EACH
    + "import re\nfound = [int(n) for t in texts for n in re.findall(r'took (\\d+) ms', t)]\nresult = sum(found) // len(found)",
    "users who saw errors": EACH
    + "result = sorted({line.split()[1] for t in texts for line in t.splitlines() if 'ERROR' in line})[:10]",
    "the log with most errors": EACH + "result = max(range(8), key=lambda n: texts[n].count('ERROR'))",
    "lines of all logs": EACH + "result = [len(text.splitlines()) for text in texts]",
    "first error of each log": EACH
    + "result = [([line for line in t.splitlines() if 'ERROR' in line] + [''])[0][:40] for t in texts]",
    "a report of two logs": f"a, b = {READ % 'log0.txt'}, {READ % 'log1.txt'}\n"
    "result = {'a': a.count('WARN'), 'b': b.count('WARN')}",
    "which logs mention user7": EACH + "result = [n for n in range(8) if 'user7 ' in texts[n]]",
    "write a summary": EACH
    + "said = str(sum(t.count('WARN') for t in texts))\nawait files__write_file(path=f'{folder}/said.txt', content=said)\n"
    "result = (await files__read_text_file(path=f'{folder}/said.txt'))['content']",
    "who manages most people": GRAPH
    + "counts = {}\nfor r in graph['relations']:\n    counts[r['to']] = counts.get(r['to'], 0) + 1\n"
    "result = max(sorted(counts), key=lambda n: counts[n])",
    "people of a team": GRAPH
    + "result = sorted(e['name'] for e in graph['entities'] if 'team 3' in ' '.join(e['observations']))",
    "kinds of things": GRAPH
    + "counts = {}\nfor e in graph['entities']:\n    counts[e['entityType']] = counts.get(e['entityType'], 0) + 1\n"
    "result = counts",
    "people without a manager": GRAPH
    + "managed = {r['from'] for r in graph['relations']}\nresult = sorted(e['name'] for e in graph['entities'] if e['name'] not in managed)[:5]",
    "commits by author": LOG
    + 'import re\nnames = re.findall(r"Author: .*?(ana|bob|eve)", str(log))\nresult = {n: names.count(n) for n in sorted(set(names))}',
    "how many commits fix something": LOG + "result = str(log).count('Fix ')",
    "lines added by the last commits": "import re\n"
    + COMMITS
    + "total = 0\nfor h in hashes[:6]:\n    shown = str(await git__git_show(repo_path=repo, revision=h))\n"
    "    total += len(re.findall(r'\\n\\+[^+]', shown.replace('\\\\n', '\\n')))\nresult = total",
    "commits that touch a file": "import re\n"
    + COMMITS
    + "result = 0\nfor h in hashes[:8]:\n    result += 'b/file3.txt' in str(await git__git_show(repo_path=repo, revision=h))",
    "a time in four cities": "import asyncio\n"
    "async def at(zone):\n    found = await time__convert_time(source_timezone='UTC', time='12:00', target_timezone=zone)\n"
    "    return found['target']['datetime'][11:16]\n"
    "result = await asyncio.gather(*[at(z) for z in ('Asia/Tokyo', 'Asia/Kolkata', 'Africa/Nairobi', 'Asia/Dubai')])",
    "logs against the graph": EACH + GRAPH + "names = {e['name'] for e in graph['entities']}\n"
    "result = sorted({line.split()[1] for t in texts for line in t.splitlines() if 'ERROR' in line} & names)[:5]",
}


def furnish(home: Path) -> tuple[Path, Path]:
    """Logs, a graph of people, and a repository."""
    folder, repo = home / "logs", home / "repo"
    for path in (folder, repo):
        path.mkdir()
    for n in range(8):
        lines = [
            f"2026-01-{1 + at % 28:02} user{(at * 7 + n) % 40} {('ERROR', 'WARN', 'INFO', 'INFO')[(at * n) % 4]} took {at * 13 % 997} ms"
            for at in range(120)
        ]
        (folder / f"log{n}.txt").write_text("\n".join(lines))
    people = [
        {
            "type": "entity",
            "name": f"user{at}",
            "entityType": ("person", "robot")[at % 5 == 0],
            "observations": [f"is in team {at % 6}"],
        }
        for at in range(60)
    ]
    managed = [
        {"type": "relation", "from": f"user{at}", "to": f"user{at // 9}", "relationType": "reports to"}
        for at in range(9, 60)
    ]
    (home / "memory.json").write_text("\n".join(json.dumps(line) for line in (*people, *managed)))
    git = ["git", "-C", str(repo), "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    for at in range(12):
        (repo / f"file{at % 4}.txt").write_text("\n".join(f"line {at} {n}" for n in range(20)))
        subprocess.run([*git, "add", "."], check=True)
        said = f"{('Fix', 'Add')[at % 2]} thing {at}"
        subprocess.run([*git, "-c", f"user.name={('ana', 'bob', 'eve')[at % 3]}", "commit", "-qm", said], check=True)
    return folder, repo


def servers(home: Path, folder: Path, repo: Path) -> dict[str, ServerSpec]:
    node, python = TOOLS / "node_modules" / ".bin", TOOLS / "servers" / "bin"
    return {
        "files": ServerSpec("files", command=str(node / "mcp-server-filesystem"), args=(str(folder),)),
        "memory": ServerSpec(
            "memory", command=str(node / "mcp-server-memory"), env={"MEMORY_FILE_PATH": str(home / "memory.json")}
        ),
        "git": ServerSpec("git", command=str(python / "mcp-server-git"), args=("--repository", str(repo))),
        "time": ServerSpec("time", command=str(python / "mcp-server-time")),
    }


class Steps:
    """Calls tools one by one, and counts what a model would have written and read."""

    def __init__(self, hub: Hub) -> None:
        self._hub, self.tokens, self.calls = hub, 0, 0

    def function(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(**arguments: Any) -> Any:
            result = await self._hub.call(name, arguments)
            self.calls += 1
            self.tokens += estimated(json.dumps({"name": name, "arguments": arguments})) + estimated(result.text)
            if result.structured is not None:
                return result.structured
            try:
                return json.loads(result.text)
            except ValueError:
                return result.text

        return call

    async def solve(self, code: str, names: list[str]) -> Any:
        space: Json = {name: self.function(name) for name in names}
        exec("async def job():\n" + textwrap.indent(code, "    ") + "\n    return result", space)
        return await space["job"]()


async def main() -> None:
    if not (TOOLS / "node.done").exists() or not (TOOLS / "servers.done").exists():
        print("0 jobs: the servers are not installed (`make test` does that)")
        return
    with tempfile.TemporaryDirectory() as place:
        home = Path(os.path.realpath(place))  # noqa: ASYNC240 - nobody else waits here
        folder, repo = furnish(home)
        config = dataclasses.replace(Config(), servers=servers(home, folder, repo), home=home / "home")
        async with open_hub(config) as hub:
            await hub.relay.ready(60)
            await show_jobs(hub, f"folder = {str(folder)!r}\nrepo = {str(repo)!r}\n")
            await show_cpu(hub, str(folder))


async def show_jobs(hub: Hub, given: str) -> None:
    names = list(hub.snapshot.tools)
    print(f"{'job':<36}{'calls':>6}{'steps':>9}{'program':>9}{'saved':>8}")
    saved: list[float] = []
    for name, job in list(JOBS.items())[:: 6 if SMALLEST else 1]:
        steps = Steps(hub)
        answer = await steps.solve(given + job, names)
        code = f"{given}{job}\nresult"
        ran = await hub.run(code)
        assert ran.value == json.loads(json.dumps(answer)), (name, ran.value, answer)
        assert ran.calls == steps.calls, name
        program = estimated(json.dumps({"code": code})) + estimated(json.dumps(ran.value))
        whole = steps.tokens + estimated(json.dumps(answer))
        saved.append(1 - program / whole)
        print(f"{name:<36}{steps.calls:>6}{whole:>9,}{program:>9,}{saved[-1]:>8.0%}")
    print(f"{len(saved)} jobs, the same answers; tokens saved, median: {statistics.median(saved):.0%}")


async def show_cpu(hub: Hub, folder: str) -> None:
    """Six calls in a program, and the same six calls without one."""
    code = f"import asyncio\nlen(await asyncio.gather(*[files__get_file_info(path='{folder}/log0.txt') for _ in range(6)]))"

    async def plainly() -> None:
        await asyncio.gather(*[hub.call("files__get_file_info", {"path": f"{folder}/log0.txt"}) for _ in range(6)])

    for name, work in (("a program with 6 calls", lambda: hub.run(code)), ("6 calls without it", plainly)):
        spent: list[float] = []
        for _ in range(2 if SMALLEST else 60):
            start = time.process_time()
            await work()
            spent.append(time.process_time() - start)
        print(
            f"{name + ', CPU of the host':<45}{statistics.median(spent) * 1e3:>6.2f} ms (least {min(spent) * 1e3:.2f})"
        )


if __name__ == "__main__":
    asyncio.run(main())
