"""What programs over tools save: 20 jobs on real servers, solved step by step and as one program; and what they cost.

    python bench/programs.py [--only jobs|waiting|ending|exits|bombs|beside]

The servers of the jobs are those of `make test` (files, memory, git, sqlite); without them there are none. Step by step,
a model writes the arguments of each call and reads its result; with a program it writes the program and reads its value.
The CPU is that of this process, where the hub is. `waiting`: what programs hold while people think. `ending`: how soon
tools and servers hear that nobody waits any more. `exits`: how processes end that ran programs. `bombs`: how long calls
take beside programs that eat memory and time. `beside`: the same beside programs that compute on every core, in short
windows in turn with windows in which those are stopped, so that whatever else the machine does is in both.
"""

# ruff: noqa: E501 - programs are as long as they are

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from trunkline import Annotations, Config, Hub, ProgramError, ProgramsSection, ServerSpec, ToolServer, open_hub
from trunkline.model import Call, Caller
from trunkline.tools.tokens import estimated

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / ".tools"
SMALLEST = os.environ.get("BENCH") == "smallest"
Json = dict[str, Any]

EACH = """
import asyncio
async def one(n):
    return (await files__read_text_file(path=f'{folder}/log{n}.txt'))['content']
texts = await asyncio.gather(*[one(n) for n in range(8)])
"""
GRAPH = "graph = await memory__read_graph()\n"
LOG = "import re\nlog = str(await git__git_log(repo_path=repo, max_count=40))\n"
SHOWN = (
    LOG
    + 'shown = [str(await git__git_show(repo_path=repo, revision=h)) for h in re.findall(r"Commit: \'?([0-9a-f]{40})", log)[:8]]\n'
)
ROWS = """
import json
async def rows(query):
    return json.loads((await sqlite__read_query(query=query)).replace("'", '"'))
"""
JOBS: dict[str, str] = {
    "errors in all logs": EACH + "result = sum(text.count('ERROR') for text in texts)",
    "the slowest request": EACH
    + "import re\nresult = max(int(n) for text in texts for n in re.findall(r'took (\\d+) ms', text))",
    "users who saw errors": EACH
    + "result = sorted({line.split()[1] for t in texts for line in t.splitlines() if 'ERROR' in line})[:10]",
    "first error of each log": EACH
    + "result = [([line for line in t.splitlines() if 'ERROR' in line] + [''])[0][:40] for t in texts]",
    "write a summary": EACH
    + "said = str(sum(t.count('WARN') for t in texts))\nawait files__write_file(path=f'{folder}/said.txt', content=said)\n"
    "result = (await files__read_text_file(path=f'{folder}/said.txt'))['content']",
    "who manages most people": GRAPH
    + "counts = {}\nfor r in graph['relations']:\n    counts[r['to']] = counts.get(r['to'], 0) + 1\n"
    "best = max(sorted(counts), key=lambda n: counts[n])\n"
    "result = (await memory__open_nodes(names=[best]))['entities'][0]['observations']",
    "how large each team is": "import asyncio\n"
    "found = await asyncio.gather(*[memory__search_nodes(query=f'team {n}') for n in range(6)])\n"
    "result = [len(one['entities']) for one in found]",
    "people without a manager": GRAPH
    + "managed = {r['from'] for r in graph['relations']}\nfree = sorted(e['name'] for e in graph['entities'] if e['name'] not in managed)\n"
    "result = [e['entityType'] for e in (await memory__open_nodes(names=free))['entities']]",
    "note what was found": GRAPH + "robots = [e['name'] for e in graph['entities'] if e['entityType'] == 'robot']\n"
    "await memory__add_observations(observations=[{'entityName': 'user1', 'contents': [f'knows {len(robots)} robots']}])\n"
    "result = (await memory__open_nodes(names=['user1']))['entities'][0]['observations']",
    "commits by author": SHOWN
    + 'names = re.findall(r"Author: .*?(ana|bob|eve)", " ".join(shown))\nresult = {n: names.count(n) for n in sorted(set(names))}',
    "lines added by the last commits": SHOWN
    + "result = sum(len(re.findall(r'\\n\\+[^+]', one.replace('\\\\n', '\\n'))) for one in shown)",
    "commits that touch a file": SHOWN + "result = sum('b/file3.txt' in one for one in shown)",
    "what fixes touch": SHOWN
    + "result = sorted({name for one in shown if 'Fix ' in one for name in re.findall(r'b/(file\\d)', one)})",
    "how large each table is": ROWS
    + "tables = [t['name'] for t in json.loads((await sqlite__list_tables()).replace(\"'\", '\"'))]\n"
    "result = {t: [(await rows(f'SELECT count(*) AS n FROM {t}'))[0]['n'], str(await sqlite__describe_table(table_name=t)).count('cid')] for t in sorted(tables)}",
    "what was ordered in each month": ROWS
    + "import asyncio\nmonths = await asyncio.gather(*[rows(f\"SELECT * FROM orders WHERE day LIKE '2026-{m:02}-%'\") for m in range(1, 7)])\n"
    "result = [sum(o['price'] * o['number'] for o in one) for one in months]",
    "what to buy again": ROWS
    + "orders, items = await rows('SELECT * FROM orders'), await rows('SELECT * FROM items')\n"
    "gone = {}\nfor o in orders:\n    gone[o['item']] = gone.get(o['item'], 0) + o['number']\n"
    "result = sorted(i['name'] for i in items if gone.get(i['name'], 0) > i['stock'])",
    "what a team spends": ROWS
    + "team = [e['name'] for e in (await memory__search_nodes(query='team 3'))['entities']]\n"
    "result = sum([o['price'] for name in team for o in await rows(f\"SELECT * FROM orders WHERE user = '{name}'\")])",
    "what those spent who saw errors": EACH
    + ROWS
    + "names = {line.split()[1] for t in texts for line in t.splitlines() if 'ERROR' in line}\n"
    "result = sum(o['price'] for o in await rows('SELECT * FROM orders') if o['user'] in names)",
    "errors as a table": EACH + ROWS + "seen = {}\nfor t in texts:\n    for line in t.splitlines():\n"
    "        if 'ERROR' in line:\n            seen[line.split()[1]] = seen.get(line.split()[1], 0) + 1\n"
    "await sqlite__create_table(query='CREATE TABLE IF NOT EXISTS errors (user TEXT PRIMARY KEY, seen INTEGER)')\n"
    "values = ', '.join(f\"('{name}', {n})\" for name, n in sorted(seen.items()))\n"
    "await sqlite__write_query(query=f'INSERT OR REPLACE INTO errors VALUES {values}')\n"
    "result = await rows('SELECT user, seen FROM errors ORDER BY seen DESC, user LIMIT 3')",
    "logs against the graph": EACH + GRAPH + "names = {e['name'] for e in graph['entities']}\n"
    "result = sorted({line.split()[1] for t in texts for line in t.splitlines() if 'ERROR' in line} & names)[:5]",
}


def furnish(home: Path, folder: Path, repo: Path) -> None:
    """Logs, a graph of people, a repository, and a database."""
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
    with closing(sqlite3.connect(home / "shop.db")) as shop, shop:
        shop.execute("CREATE TABLE items (name TEXT PRIMARY KEY, stock INTEGER)")
        shop.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, user TEXT, item TEXT, number INTEGER, price INTEGER, day TEXT)"
        )
        shop.executemany("INSERT INTO items VALUES (?, ?)", [(f"item{at}", at * 5) for at in range(12)])
        ordered = [
            (
                at,
                f"user{at * 7 % 60}",
                f"item{at % 12}",
                1 + at % 3,
                5 + at * 11 % 90,
                f"2026-{1 + at % 6:02}-{1 + at % 28:02}",
            )
            for at in range(150)
        ]
        shop.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", ordered)


def servers(home: Path, folder: Path, repo: Path) -> dict[str, ServerSpec]:
    node, python = TOOLS / "node_modules" / ".bin", TOOLS / "servers" / "bin"
    sqlite = TOOLS / "legacy" / "bin" / "mcp-server-sqlite"
    return {
        "files": ServerSpec("files", command=str(node / "mcp-server-filesystem"), args=(str(folder),)),
        "memory": ServerSpec(
            "memory", command=str(node / "mcp-server-memory"), env={"MEMORY_FILE_PATH": str(home / "memory.json")}
        ),
        "git": ServerSpec("git", command=str(python / "mcp-server-git"), args=("--repository", str(repo))),
        "sqlite": ServerSpec("sqlite", command=str(sqlite), args=("--db-path", str(home / "shop.db"))),
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


PARTS = ("jobs", "waiting", "ending", "exits", "bombs", "beside")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--only", choices=PARTS)
    only = parser.parse_args().only
    for part in [only] if only else PARTS:
        with tempfile.TemporaryDirectory() as place:
            asyncio.run(SHOWS[part](Path(os.path.realpath(place))))


async def show_real(home: Path) -> None:
    """The jobs, and what one program costs."""
    folder, repo = home / "logs", home / "repo"
    specs = servers(home, folder, repo)
    if not all(Path(spec.command).exists() for spec in specs.values()):  # noqa: ASYNC240 - nobody else waits here
        print("0 jobs: the servers are not installed (`make test` does that)")
        return
    furnish(home, folder, repo)
    config = dataclasses.replace(Config(), servers=specs, home=home / "home")
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
        assert ran.calls == steps.calls > 1, name
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


class Shop:
    """Tools for programs that wait, and the moments in which they were let go."""

    def __init__(self) -> None:
        self.begun, self.left = asyncio.Event(), 0.0

    @property
    def server(self) -> ToolServer:
        server = ToolServer(id="shop", name="shop")

        @server.tool(annotations=Annotations(read_only_hint=True))
        def look(item: int) -> dict[str, int]:
            """Look an item up."""
            return {"item": item}

        @server.tool(annotations=Annotations(requires_confirmation=True))
        def buy(item: int) -> str:
            """Buy an item."""
            return f"bought {item}"

        @server.tool(annotations=Annotations(read_only_hint=True))
        async def wait() -> str:
            """Wait for ever."""
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.left = time.monotonic()
            return ""

        return server


async def show_waiting(home: Path) -> None:
    """Programs that wait for people, as modern callers leave them."""
    many = 5 if SMALLEST else 1000
    limits = ProgramsSection(waiting_per_user=3 * many)
    code = "import asyncio\nkept = 'x' * 1000\nawait asyncio.gather(buy(item=1), buy(item=2))"
    caller = Caller(capabilities=b'{"elicitation":{"form":{}}}')
    async with open_hub(Config(home=home, programs=limits)) as hub:
        await hub.mount(Shop().server)
        programs = hub.relay.programs

        async def waits(number: int) -> float:
            since = time.monotonic()
            for _ in range(number):
                call = Call("tools/call", "run_code", {"arguments": json.dumps({"code": code}).encode()}, caller=caller)
                await programs.run(call, code)
            gc.collect()
            return (time.monotonic() - since) / number

        await waits(min(many, 100))
        before = resident()
        each = await waits(many)
        grown = resident() - before
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        await waits(many)
        held = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        print(
            f"{many} programs that wait: {programs.pool.busy} workers held, {grown / 2**20:.1f} MB resident, "
            f"{held / 2**20:.2f} MB of Python objects, {each * 1e3:.1f} ms until one waits"
        )


async def show_ending(home: Path) -> None:
    """From the moment in which nobody waits any more to the end of the tool, and to the word at the server."""
    script, heard = home / "server.py", home / "heard"
    script.write_text(DEAF)
    heard.touch()
    spec = ServerSpec("far", command=sys.executable, args=("-S", str(script), str(heard)))
    async with open_hub(Config(home=home / "home", servers={"far": spec})) as hub:
        shop = Shop()
        await hub.mount(shop.server)
        await hub.relay.ready(60)
        for how in ("caller leaves", "deadline", "cancelled"):
            tools: list[float] = []
            told: list[float] = []
            for _ in range(1 if SMALLEST else 20):
                tool, server = await ended(hub, shop, heard, how)
                tools.append(tool)
                told.append(server)
            print(
                f"{how + ': the tool ended after':<36}{statistics.median(tools) * 1e3:>7.1f} ms (most {max(tools) * 1e3:.1f}), "
                f"the server was told after {statistics.median(told) * 1e3:.1f} ms (most {max(told) * 1e3:.1f})"
            )


async def ended(hub: Hub, shop: Shop, heard: Path, how: str) -> tuple[float, float]:
    """How long it took until a tool here, and a server in a process of its own, were let go."""
    shop.begun.clear()
    shop.left = 0.0
    heard.write_text("")  # noqa: ASYNC240 - nobody else waits here
    timeout = 0.5 if how == "deadline" else 0.0
    since = time.monotonic()
    running = asyncio.ensure_future(
        hub.run("import asyncio\nawait asyncio.gather(shop__wait(), far__wait())", timeout=timeout)
    )
    await asyncio.wait([running, asyncio.ensure_future(shop.begun.wait())], return_when=asyncio.FIRST_COMPLETED)
    while how != "deadline" and "begun" not in heard.read_text():  # noqa: ASYNC110, ASYNC240 - nobody else waits here
        await asyncio.sleep(0.001)
    start = since + timeout if timeout else time.monotonic()
    if how == "caller leaves":
        running.cancel()
    elif how == "cancelled":
        await hub.relay.programs.remove(hub.relay.programs.running()[0].id, None)
    await asyncio.gather(running, return_exceptions=True)
    while not shop.left or "cancelled" not in heard.read_text():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.001)
    return shop.left - start, float(heard.read_text().split()[-1]) - start  # noqa: ASYNC240


DEAF = """
import json, sys, time
def say(word):
    with open(sys.argv[1], "a") as file:
        file.write(f"{word} {time.monotonic()}\\n")
for line in sys.stdin:
    asked = json.loads(line)
    method = asked.get("method")
    if method == "notifications/cancelled":
        say("cancelled")
    elif method == "tools/call":
        say("begun")
    elif "id" in asked:
        info = {"protocolVersion": asked.get("params", {}).get("protocolVersion"), "capabilities": {"tools": {}}, "serverInfo": {"name": "far", "version": "1"}}
        tools = {"tools": [{"name": "wait", "inputSchema": {"type": "object"}}]}
        known = {"initialize": {"result": info}, "tools/list": {"result": tools}, "ping": {"result": {}}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **known.get(method, {"error": {"code": -32601, "message": "no"}})}), flush=True)
"""
"""A server that never answers a call, and notes when it is told that nobody waits for it."""


async def show_exits(home: Path) -> None:
    """Processes that ran programs: one that ended, one that was left while it computed, one while it waited."""
    many = 1 if SMALLEST else 100
    codes: list[int] = []
    for _ in range(many):
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", ONCE, str(home))
        codes.append(await process.wait())
    print(f"exit code 0 in {codes.count(0)} of {many} runs")


ONCE = """
import asyncio, sys
from pathlib import Path
from trunkline import Config, open_hub
async def main():
    async with open_hub(Config(home=Path(sys.argv[1]))) as hub:
        assert (await hub.run("1 + 1")).value == 2
        left = [asyncio.ensure_future(hub.run(code)) for code in ("while True:\\n    pass", "import asyncio\\nawait asyncio.sleep(50)")]
        while len(hub.relay.programs.running()) < 2:
            await asyncio.sleep(0.01)
        left[1].cancel()
        await asyncio.wait(left, timeout=0.05)
    await asyncio.gather(*left, return_exceptions=True)
asyncio.run(main())
"""


async def show_bombs(home: Path) -> None:
    """Calls in the pace of somebody who works, alone and beside 40 programs that eat memory and time."""
    bombs = (
        "x = []\nwhile True:\n    x.append('y' * 100_000)",
        "'x' * 10**10",
        "x = 'x'\nwhile True:\n    x += x",
        "while True:\n    pass",
    )
    many = 4 if SMALLEST else 40
    limits = ProgramsSection(running_per_user=many, compute=0.2 if SMALLEST else 2.0)
    async with open_hub(Config(home=home, programs=limits)) as hub:
        await hub.mount(Shop().server)
        await hub.run("1")
        figures: dict[str, list[float]] = {"alone": [], "beside them": []}
        before = most = resident()
        for _ in range(1 if SMALLEST else 3):
            running = [asyncio.ensure_future(hub.run(bombs[at % len(bombs)])) for at in range(many)]
            beside = figures["beside them"]
            first = len(beside)
            while not all(one.done() for one in running):
                beside.append(await timed_call(hub))
                most = max(most, resident())
            ends = await asyncio.gather(*running, return_exceptions=True)
            assert all(isinstance(one, ProgramError) for one in ends), ends
            figures["alone"] += [await timed_call(hub) for _ in range(len(beside) - first)]
        tails = {name: sorted(times)[int(len(times) * 0.99)] for name, times in figures.items()}
        for name, times in figures.items():
            print(
                f"calls {name}: {len(times)}, median {statistics.median(times) * 1e3:.2f} ms, p99 {tails[name] * 1e3:.2f} ms"
            )
        print(
            f"{many} bombs: p99 of others {tails['beside them'] / tails['alone']:.2f} x, {(most - before) / 2**20:.1f} MB more"
        )


async def show_beside(home: Path) -> None:
    """Calls in the pace of somebody who works, while programs compute and while they are stopped, in turn."""
    seconds = 1 if SMALLEST else 20
    limits = ProgramsSection(compute=600.0, timeout=600.0)
    async with open_hub(Config(home=home, programs=limits)) as hub:
        await hub.mount(Shop().server)
        await hub.run("1")
        running = [
            asyncio.ensure_future(hub.run("while True:\n    pass")) for _ in range(hub.relay.programs.pool.processes)
        ]
        await asyncio.sleep(2)
        stopped: list[float] = []
        beside: list[float] = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for times, number in ((stopped, signal.SIGSTOP), (beside, signal.SIGCONT)):
                signal_below(os.getpid(), number)
                window = time.monotonic() + 0.3
                while time.monotonic() < window:
                    times.append(await timed_call(hub))
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    stopped.sort()
    beside.sort()
    shares = {"median": 0.5, "p90": 0.9, "p99": 0.99}
    ratios = {name: beside[int(len(beside) * at)] / stopped[int(len(stopped) * at)] for name, at in shares.items()}
    print(f"calls beside {len(running)} programs that compute:", ", ".join(f"{n} {r:.2f} x" for n, r in ratios.items()))


def signal_below(process: int, number: int) -> None:
    """Send a signal to every process that one started, and to theirs."""
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # threads and processes end
            for child in map(int, (task / "children").read_text().split()):
                os.kill(child, number)
                signal_below(child, number)


async def timed_call(hub: Hub) -> float:
    start = time.perf_counter()
    await hub.call("look", {"item": 1})
    spent = time.perf_counter() - start
    await asyncio.sleep(0.005)
    return spent


def resident() -> int:
    """Bytes that this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


SHOWS = {
    "jobs": show_real,
    "waiting": show_waiting,
    "ending": show_ending,
    "exits": show_exits,
    "bombs": show_bombs,
    "beside": show_beside,
}

if __name__ == "__main__":
    main()
