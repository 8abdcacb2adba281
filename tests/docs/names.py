"""The reference of public names, from what each says of itself; what is below the mark in the page is left alone."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import trunkline

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"
MARK = "<!-- Below this line the page is written by hand. -->"
INTRODUCTION = """# Python names

Written from the source by `python -m tests.docs.reference`, down to the mark; a test keeps it so.

All of this is imported from `trunkline`. What a guide says besides, it says with the module: `from trunkline.errors
import BusyError`.
"""
GROUPS = {
    "The hub": ("python.md", "open_hub Hub Scope Tool ToolResult TrunklineError __version__"),
    "Servers and threads at run time": (
        "python.md#servers-and-threads-at-run-time",
        "Registration Service ServiceDirectory "
        "HubThread Thread ThreadStatistics ServerRegistered ServerUnregistered ThreadChanged LimitReached "
        "LimitNear CredentialRefused",
    ),
    "Under ART's names": (
        "manager.md",
        "McpManagerV2 McpManagerV2Config McpRegistry McpContextManager McpStorage ToolSearchService McpProxyTool "
        "McpServerConfig McpConnection McpToolDefinition McpServerStatus McpServerConnection McpAppConfig "
        "McpUserConfig Credentials Connected ScoredTool ProgrammaticToolExecutor ExecutionContext ExecutionResult "
        "ExecutionStep ToolMetrics",
    ),
    "Trust": ("trust.md", "Review ToolHeld ToolApproved"),
    "Configuration": (
        "configuration.md",
        "Config ServerSpec GatewayConfig GroupSpec ProfileSpec MiddlewareSection CacheSection RouterSection "
        "BatcherSection SearchSection ToolOptions OAuthSpec",
    ),
    "Annotations": (
        "annotations.md",
        "Annotations create_annotated_tool infer_annotations merge_annotations validate_annotations "
        "get_tool_safety_level requires_confirmation is_safe_to_retry filter_tools_by_annotations "
        "get_annotation_summary",
    ),
    "Middleware": (
        "middleware.md",
        "ToolMiddleware CallNext ToolContext ToolIntegrationManager global_tool_integration_manager "
        "create_tool_middleware_chain logging_middleware create_logging_middleware validation_middleware "
        "create_validation_middleware confirmation_middleware create_confirmation_middleware "
        "create_timeout_middleware create_retry_middleware ToolWrapperOptions wrap_tool_with_elicitation "
        "wrap_tools_with_elicitation",
    ),
    "Questions": (
        "questions.md",
        "ElicitationManager ElicitationManagerConfig global_elicitation_manager create_elicitation_context Elicitation "
        "ElicitationResponse FormField SelectOption FileReference Secret ElicitationProtocolAdapter "
        "global_elicitation_protocol create_confirmation_request create_text_input_request create_select_request "
        "create_form_request is_elicitation_protocol_message",
    ),
    "Cache": (
        "cache.md",
        "ToolCache create_tool_cache ToolResultCache create_tool_result_cache CacheConfig DEFAULT_CACHE_CONFIG "
        "CacheStats",
    ),
    "Router": (
        "router.md",
        "ToolRouter create_tool_router RouterConfig DEFAULT_ROUTER_CONFIG RouteContext RoutingDecision ServerWeight",
    ),
    "Groups": ("groups.md", "MultiServerManager global_multi_server_manager MultiServerConfig ServerGroup ServerInfo"),
    "Batches": (
        "batcher.md",
        "RequestBatcher create_request_batcher ToolCallBatcher create_tool_call_batcher BatchConfig "
        "DEFAULT_BATCH_CONFIG BatchRequest BatchResult",
    ),
    "Programs": ("programs.md", "ProgramResult ProgramError ProgramsSection"),
    "Search": ("search.md", "Finder SearchConfig ToolText"),
    "Discovery": (
        "discovery.md",
        "EnhancedToolDiscovery EnhancedToolInfo ToolSearchCriteria ToolSearchResult CompatibilityCheckResult",
    ),
    "Converter": (
        "converter.md",
        "to_mcp_tool from_mcp_tool batch_convert_to_mcp batch_convert_from_mcp create_tool_from_function to_anthropic "
        "from_anthropic to_openai from_openai to_gemini from_gemini Converted Loss ToolConverterOptions "
        "validate_tool_name sanitize_tool_name TOOL_COMPATIBILITY",
    ),
    "Servers of one's own": (
        "authoring.md",
        "ToolServer MCPServerBase MCPServerBaseConfig ServerCapabilitiesManager ServerCapabilitiesConfig Resource "
        "ResourceTemplate ResourceContent create_text_resource create_json_resource Prompt PromptArgument "
        "PromptMessage PromptResult create_prompt Image Audio Embedded Link ask ask_all Question Answer "
        "report_progress send_log was_cancelled",
    ),
    "Agents and workflows": (
        "authoring.md#agents-and-workflows",
        "ExposableAgent ExposableWorkflow WorkflowStep enter_step ExposureMetadata ExposureOptions ExposureResult "
        "AgentExposureManager global_agent_exposure_manager expose_agent_as_tool expose_agents_as_tools "
        "expose_workflow_as_tool expose_workflows_as_tools",
    ),
    "Registries": (
        "registry.md",
        "MCPRegistryClient global_mcp_registry_client MCPRegistryClientConfig RegistryConfig RegistryEntry "
        "RegistrySearchOptions RegistrySearchResult get_well_known_server get_all_well_known_servers",
    ),
    "Manifests, sources and secrets": (
        "manifests.md",
        "Manifest ManifestError read_manifest Source Sources Secrets",
    ),
}
"""The page that explains each name, and the names in the order in which a reader meets them."""


def names_page() -> str:
    """Every public name with its sentence, and then what the page has below the mark."""
    grouped = [name for _, names in GROUPS.values() for name in names.split()]
    odd = sorted(set(trunkline.__all__).symmetric_difference(grouped))
    if odd or len(grouped) != len(set(grouped)):
        raise ValueError(f"Each public name belongs into one group of tests/docs/names.py: {', '.join(odd)}")
    parts = [INTRODUCTION]
    for title, (page, names) in GROUPS.items():
        rows = [f"| `{name}` | {_cell(_sentence(name))} |" for name in names.split()]
        parts += [f"## [{title}]({page})\n", "| name | |", "|---|---|", *rows, ""]
    _, mark, by_hand = PAGE.read_text(encoding="utf-8").partition(MARK)
    return "\n".join(parts) + "\n" + mark + by_hand


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _sentence(name: str) -> str:
    value = getattr(trunkline, name)
    if inspect.isclass(value) or (inspect.isfunction(value) and value.__name__ == name):
        return _first(inspect.getdoc(value))
    below = _below(name)
    if not below and name.startswith("DEFAULT_"):
        return f"The defaults of `{type(value).__name__}`."
    return below or _first(type(value).__doc__)


def _first(document: str | None) -> str:
    return " ".join((document or "").partition("\n\n")[0].split())


def _below(name: str) -> str:
    """What is written below the line that makes a value."""
    module = import_module(_homes()[name])
    body = ast.parse(inspect.getsource(module)).body
    for line, following in pairwise(body):
        targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
        named = any(isinstance(target, ast.Name) and target.id == name for target in targets)
        if named and isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            return _first(str(following.value.value))
    return ""


@cache
def _homes() -> dict[str, str]:
    tree = ast.parse(Path(str(trunkline.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [line for line in ast.walk(tree) if isinstance(line, ast.ImportFrom)]
    return {alias.name: line.module or "" for line in imports for alias in line.names}
