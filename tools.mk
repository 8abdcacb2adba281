# What the tests use that others wrote: servers, clients and the conformance suite, in .tools.
# Included by the Makefile above its first target, so the default has to be named.
.DEFAULT_GOAL := help
.PHONY: locktools vendor

NPM := PATH="$(CURDIR)/$(VENV)/bin:$$PATH" npm --ignore-scripts --no-audit --no-fund --loglevel=error
COMPILE := $(VENV)/bin/uv pip compile -q --universal --generate-hashes --no-header --no-annotate --python-version 3.11

FRAMEWORKS := anthropic google-genai openai openai-agents 'pydantic-ai-slim[mcp,openai]'
LANGCHAIN := langchain 'langchain-mcp-adapters>=0.3.2' langchain-openai

UNFUNDED := const lock = require("./.tools/lock/package-lock.json"); \
	for (const one of Object.values(lock.packages)) delete one.funding; \
	console.log(JSON.stringify(lock, null, 2))

.tools/done: .tools/node.done .tools/legacy.done .tools/servers.done .tools/frameworks.done .tools/langchain.done
	@touch $@

# The node of the virtual environment: the one of the machine may be too old for the Inspector.
.tools/node.done: tests/real/package.json tests/real/package-lock.json | $(VENV)/dev.done
	@mkdir -p .tools
	@cp tests/real/package.json tests/real/package-lock.json .tools
	@$(NPM) --prefix .tools ci
	@touch $@

.tools/%.done: requirements/%.txt | $(VENV)/dev.done
	@$(VENV)/bin/uv venv --quiet --clear --python $(VENV)/bin/python .tools/$*
	@$(VENV)/bin/uv pip install --quiet --compile-bytecode --python .tools/$*/bin/python --require-hashes -r $<
	@touch $@

lock: locktools

# npm locks in an empty folder: from one with packages it takes over what only this machine needs.
# The overrides in package.json name the last versions that our package index has for every platform.
# The lock file goes without addresses, of packages as of those who ask for money.
# The SQLite server runs with the SDK of the 1.x line alone.
# LangChain's adapters want the SDK of the 1.x line, and so an environment without Trunkline.
locktools: $(VENV)/dev.done
	printf 'mcp==1.30.0\nmcp-server-sqlite\n' | $(COMPILE) - -o requirements/legacy.txt
	printf 'mcp-server-git\nmcp-server-time\n' | $(COMPILE) - -o requirements/servers.txt
	printf '%s\n' $(FRAMEWORKS) | $(COMPILE) pyproject.toml - -o requirements/frameworks.txt
	printf '%s\n' $(LANGCHAIN) | $(COMPILE) - -o requirements/langchain.txt
	@rm -rf .tools/lock && mkdir -p .tools/lock && cp tests/real/package.json .tools/lock
	$(NPM) --prefix .tools/lock install --package-lock-only --omit-lockfile-registry-resolved
	@$(BIN)/node -e '$(UNFUNDED)' > tests/real/package-lock.json

CONSOLE_PARTS := preact@11.2.0 htm@3.1.1 @preact/signals@2.11.4 @preact/signals-core esbuild@0.28.2
VENDORED := src/trunkline/gateway/console/vendor
BUNDLE := .tools/vendor/node_modules/.bin/esbuild --bundle --format=esm --minify --target=es2022 --legal-comments=none --log-level=warning

vendor: $(VENV)/dev.done  ## bundle what the console is made with; the outcome is committed, and nothing is built to run it
	@rm -rf .tools/vendor && mkdir -p .tools/vendor $(VENDORED)
	@echo '{"private": true}' > .tools/vendor/package.json
	@$(NPM) --prefix .tools/vendor install $(CONSOLE_PARTS)
	@printf '%s\n' 'import { h } from "preact"; import htm from "htm"; export const html = htm.bind(h);' \
		'export { h, render, Fragment } from "preact"; export { useEffect, useRef, useState } from "preact/hooks";' \
		'export { signal, computed, effect, batch } from "@preact/signals";' > .tools/vendor/page.js
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(BUNDLE) .tools/vendor/page.js --outfile=$(VENDORED)/preact.js
	@for part in preact htm @preact/signals @preact/signals-core; do \
		$(BIN)/node -p "const one = require('./.tools/vendor/node_modules/$$part/package.json'); one.name + ' ' + one.version"; \
		echo; cat .tools/vendor/node_modules/$$part/LICENSE; echo; done > $(VENDORED)/LICENSES.txt
	@cd $(VENDORED) && sha256sum LICENSES.txt preact.js > SHA256SUMS && cat SHA256SUMS
