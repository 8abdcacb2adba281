"""Programs that mean harm, by kind: each is ended with an error, or gives nothing that it should not have."""

from __future__ import annotations

SECRET = "canary-9f31"
"""Stands in the environment of whoever runs them, and in the failure of a tool; none of them may say it."""

CPU = [
    "while True: pass",
    "while True:\n    try:\n        1 / 0\n    except:\n        pass",
    "try:\n    pass\nfinally:\n    while True:\n        pass",
    "sum(range(10**11))",
    "import math\nmath.factorial(10**7)",
    "x = 3\nfor i in range(40):\n    x = x * x",
    "def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nf(60)",
    "all(x >= 0 for x in range(10**12))",
    "len([1 for x in range(10**6) for y in range(10**6) if False])",
    "import itertools\nfor x in itertools.count():\n    pass",
    "sorted(range(10**9), key=lambda x: -x)",
    "pow(7, 10**8, 10**30 + 1) and pow(7, 10**9)",
    "while True:\n    eval('1 + 1')",
    "import hashlib\nx = b'x'\nwhile True:\n    x = hashlib.sha256(x).digest()",
]

MEMORY = [
    "'x' * 10**10",
    "b'x' * 10**10",
    "[0] * 10**9",
    "(0,) * 10**9",
    "x = 'x'\nwhile True:\n    x += x",
    "x = [1]\nwhile True:\n    x = x + x",
    "x = []\nwhile True:\n    x.append([0] * 1000)",
    "x = {}\ni = 0\nwhile True:\n    x[i] = 'y' * 100\n    i += 1",
    "10**10**9",
    "1 << 10**11",
    "'%0999999999d' % 1",
    "f'{1:0999999999d}'",
    "'{:>9999999999}'.format('x')",
    "'x'.ljust(10**10)",
    "'x'.center(10**10)",
    "'x'.zfill(10**10)",
    "'y'.join(['x' * 1000] * 10**7)",
    "('x' * 10**6).replace('x', 'y' * 10**6)",
    "list(range(10**9))",
    "set(range(10**9))",
    "dict.fromkeys(range(10**9))",
    "bytes(10**10)",
    "import itertools\nlist(itertools.product(range(100), repeat=10))",
    "import itertools\nlist(itertools.permutations(range(12)))",
    "int('9' * 10**7) ** 100",
    "repr([['x' * 1000] * 1000] * 1000)",
    "import json\njson.dumps([['x' * 1000] * 1000] * 1000)",
    "import re\n[m for m in re.finditer('', 'x' * 10**8)]",
]

STACK = [
    "def f():\n    return f()\nf()",
    "f = lambda: f()\nf()",
    "def f():\n    try:\n        f()\n    except RecursionError:\n        f()\nf()",
    "async def f():\n    return await f()\nawait f()",
    "x = []\nfor i in range(100000):\n    x = [x]\nrepr(x)",
    "x = []\ny = []\nfor i in range(100000):\n    x, y = [x], [y]\nx == y",
    "x = ()\nfor i in range(100000):\n    x = (x,)\nhash(x)",
    "x = []\nfor i in range(100000):\n    x = [x]\nx",
    "x = {}\nfor i in range(100000):\n    x = {'a': x}\nx",
    "import json\njson.loads('[' * 200000 + ']' * 200000)",
    "(" * 20000 + "1" + ")" * 20000,
    "[" * 20000 + "]" * 20000,
    "-" * 20000 + "1",
    "x" + ".a" * 20000,
    "lambda: " * 10000 + "1",
    "not " * 20000 + "True",
    "class A:\n    def __repr__(self):\n        return repr(self)\nrepr(A())",
    "class A:\n    def __eq__(self, other):\n        return self == other\nA() == A()",
    "import functools\n@functools.lru_cache\ndef f(n):\n    return f(n + 1)\nf(0)",
    "eval('(' * 5000 + ')' * 5000)",
]

REGEX = [
    "import re\nre.match('(a+)+$', 'a' * 50 + 'b')",
    "import re\nre.match('(a|aa)+$', 'a' * 60 + 'b')",
    "import re\nre.search('(.*a){25}', 'a' * 40)",
    "import re\nre.compile('((a{1000}){1000}){1000}')",
    "import re\nre.match(r'(\\w+\\s?)*$', 'word ' * 5000 + '!')",
    "import re\nre.compile('(' * 5000 + ')' * 5000)",
]

INTROSPECTION = [
    "().__class__.__base__.__subclasses__()",
    "().__class__.__mro__[1].__subclasses__()",
    "(lambda: 0).__globals__",
    "(lambda: 0).__code__.co_consts",
    "__builtins__",
    "__builtins__['__import__']('os').environ",
    "__import__('os').system('id')",
    "look.__globals__",
    "look.__self__",
    "look.__wrapped__",
    "'{0.__class__.__init__.__globals__}'.format(look)",
    "'{0.__class__}'.format(1)",
    "getattr(1, '__cl' + 'ass__').__base__.__subclasses__()",
    "import sys\nsys.modules['os'].environ",
    "import sys\nsys._getframe().f_back",
    "try:\n    1 / 0\nexcept Exception as e:\n    x = e.__traceback__.tb_frame\nx",
    "type('X', (object,), {})().__class__.__bases__",
    "globals()['__loader__']",
    "vars(__import__('asyncio'))['sys'].modules",
    "import asyncio\nasyncio.sys",
    "import asyncio\nasyncio.get_event_loop()",
    "exec('import os; os.system(\"id\")')",
    "eval(\"__import__('subprocess').getoutput('id')\")",
    "compile('1', 'x', 'eval').co_code",
    "breakpoint()",
    "object.__subclasses__()",
    "(await look(item=1)).__class__.__base__.__subclasses__()",
]

OUTSIDE = [
    "open('/etc/passwd').read()",
    "open('/tmp/x', 'w').write('x')",
    "from pathlib import Path\nPath('/etc/passwd').read_text()",
    "from pathlib import Path\nlist(Path('/').iterdir())",
    "import os\nos.listdir('/')",
    "import os\nos.environ['TRUNKLINE_CANARY']",
    "import os\nos.getenv('TRUNKLINE_CANARY')",
    "import os\nos.system('id')",
    "import os\nos.kill(1, 9)",
    "import os\nos.fork()",
    "import subprocess\nsubprocess.run(['id'])",
    "import socket\nsocket.create_connection(('127.0.0.1', 7420))",
    "import urllib.request\nurllib.request.urlopen('http://127.0.0.1')",
    "import ctypes\nctypes.string_at(0)",
    "import gc\ngc.get_objects()",
    "import inspect\ninspect.stack()",
    "import importlib\nimportlib.import_module('os')",
    "import pickle\npickle.loads(b'x')",
    "import threading\nthreading.Thread(target=print).start()",
    "import signal\nsignal.raise_signal(9)",
    "import sys\nsys.exit(3)",
    "raise SystemExit(3)",
    "input()",
]

FLOODS = [
    "while True:\n    await look(item=1)",
    "import asyncio\nawait asyncio.gather(*[look(item=i) for i in range(100000)])",
    "import asyncio\nwhile True:\n    try:\n        await asyncio.gather(look(item=1), look(item=2))\n"
    "    except Exception:\n        pass",
    "while True:\n    try:\n        await fail()\n    except Exception:\n        pass",
    "while True:\n    print('x' * 1000)",
    "print('x' * 10**7)",
    "while True:\n    print()",
    "import asyncio\nawait asyncio.sleep(10**9)",
    "import asyncio\nwhile True:\n    await asyncio.sleep(0)",
    "'x' * 5_000_000",
    "[0] * 500_000",
    "{str(i): i for i in range(100_000)}",
    "raise ValueError('x' * 10**7)",
    "assert False, 'y' * 10**7",
    "await look(item='x' * 10**7)",
    "await look(item=10**5000)",
    "await say_it(text='x' * 8_000_000)",
]

SECRETS = [
    "await fail()",
    "try:\n    await fail()\nexcept Exception as error:\n    raise ValueError(repr(error) + str(error.args))",
    "try:\n    await fail()\nexcept Exception as error:\n    print(error, error.__dict__)\n    raise",
    "try:\n    await fail()\nexcept BaseException as error:\n    x = str(error)\nx[:0] + str(error)",
]

KINDS = {
    "cpu": CPU,
    "memory": MEMORY,
    "stack": STACK,
    "regex": REGEX,
    "introspection": INTROSPECTION,
    "outside": OUTSIDE,
    "floods": FLOODS,
    "secrets": SECRETS,
}

HARMLESS = frozenset((*REGEX, *(code for code in STACK if code.endswith(("repr(x)", "\nx")))))
"""What the sandbox may simply run: patterns that take no time there, and values whose depth is cut."""
