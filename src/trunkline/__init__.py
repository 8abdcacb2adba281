"""Trunkline: one line to every MCP tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trunkline.version import __version__

__all__ = [
    "DEFAULT_BATCH_CONFIG",
    "DEFAULT_CACHE_CONFIG",
    "DEFAULT_ROUTER_CONFIG",
    "TOOL_COMPATIBILITY",
    "AgentExposureManager",
    "Annotations",
    "Answer",
    "Audio",
    "BatchConfig",
    "BatchRequest",
    "BatchResult",
    "BatcherSection",
    "CacheConfig",
    "CacheSection",
    "CacheStats",
    "CallNext",
    "CompatibilityCheckResult",
    "Config",
    "Converted",
    "Elicitation",
    "ElicitationManager",
    "ElicitationManagerConfig",
    "ElicitationProtocolAdapter",
    "ElicitationResponse",
    "Embedded",
    "EnhancedToolDiscovery",
    "EnhancedToolInfo",
    "ExposableAgent",
    "ExposableWorkflow",
    "ExposureMetadata",
    "ExposureOptions",
    "ExposureResult",
    "FileReference",
    "Finder",
    "FormField",
    "GatewayConfig",
    "GroupSpec",
    "Hub",
    "Image",
    "Link",
    "Loss",
    "MCPRegistryClient",
    "MCPRegistryClientConfig",
    "MCPServerBase",
    "MCPServerBaseConfig",
    "Manifest",
    "ManifestError",
    "MiddlewareSection",
    "MultiServerConfig",
    "MultiServerManager",
    "ProfileSpec",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "PromptResult",
    "Question",
    "RegistryConfig",
    "RegistryEntry",
    "RegistrySearchOptions",
    "RegistrySearchResult",
    "RequestBatcher",
    "Resource",
    "ResourceContent",
    "ResourceTemplate",
    "RouteContext",
    "RouterConfig",
    "RouterSection",
    "RoutingDecision",
    "Scope",
    "SearchConfig",
    "SearchSection",
    "Secret",
    "Secrets",
    "SelectOption",
    "ServerCapabilitiesConfig",
    "ServerCapabilitiesManager",
    "ServerGroup",
    "ServerInfo",
    "ServerSpec",
    "ServerWeight",
    "Source",
    "Sources",
    "Tool",
    "ToolCache",
    "ToolCallBatcher",
    "ToolContext",
    "ToolConverterOptions",
    "ToolIntegrationManager",
    "ToolMiddleware",
    "ToolOptions",
    "ToolResult",
    "ToolResultCache",
    "ToolRouter",
    "ToolSearchCriteria",
    "ToolSearchResult",
    "ToolServer",
    "ToolText",
    "ToolWrapperOptions",
    "TrunklineError",
    "WorkflowStep",
    "__version__",
    "ask",
    "ask_all",
    "batch_convert_from_mcp",
    "batch_convert_to_mcp",
    "confirmation_middleware",
    "create_annotated_tool",
    "create_confirmation_middleware",
    "create_confirmation_request",
    "create_elicitation_context",
    "create_form_request",
    "create_json_resource",
    "create_logging_middleware",
    "create_prompt",
    "create_request_batcher",
    "create_retry_middleware",
    "create_select_request",
    "create_text_input_request",
    "create_text_resource",
    "create_timeout_middleware",
    "create_tool_cache",
    "create_tool_call_batcher",
    "create_tool_from_function",
    "create_tool_middleware_chain",
    "create_tool_result_cache",
    "create_tool_router",
    "create_validation_middleware",
    "enter_step",
    "expose_agent_as_tool",
    "expose_agents_as_tools",
    "expose_workflow_as_tool",
    "expose_workflows_as_tools",
    "filter_tools_by_annotations",
    "from_anthropic",
    "from_gemini",
    "from_mcp_tool",
    "from_openai",
    "get_all_well_known_servers",
    "get_annotation_summary",
    "get_tool_safety_level",
    "get_well_known_server",
    "global_agent_exposure_manager",
    "global_elicitation_manager",
    "global_elicitation_protocol",
    "global_mcp_registry_client",
    "global_multi_server_manager",
    "global_tool_integration_manager",
    "infer_annotations",
    "is_elicitation_protocol_message",
    "is_safe_to_retry",
    "logging_middleware",
    "merge_annotations",
    "open_hub",
    "read_manifest",
    "report_progress",
    "requires_confirmation",
    "sanitize_tool_name",
    "send_log",
    "to_anthropic",
    "to_gemini",
    "to_mcp_tool",
    "to_openai",
    "validate_annotations",
    "validate_tool_name",
    "validation_middleware",
    "was_cancelled",
    "wrap_tool_with_elicitation",
    "wrap_tools_with_elicitation",
]

if TYPE_CHECKING:
    from trunkline.authoring.capabilities import ServerCapabilitiesConfig, ServerCapabilitiesManager
    from trunkline.authoring.content import Audio, Embedded, Image, Link
    from trunkline.authoring.context import ask, ask_all, report_progress, send_log, was_cancelled
    from trunkline.authoring.decorators import ToolServer
    from trunkline.authoring.exposable import (
        ExposableAgent,
        ExposableWorkflow,
        ExposureMetadata,
        ExposureOptions,
        ExposureResult,
        WorkflowStep,
    )
    from trunkline.authoring.exposure import (
        AgentExposureManager,
        enter_step,
        expose_agent_as_tool,
        expose_agents_as_tools,
        expose_workflow_as_tool,
        expose_workflows_as_tools,
        global_agent_exposure_manager,
    )
    from trunkline.authoring.prompts import Prompt, PromptArgument, PromptMessage, PromptResult, create_prompt
    from trunkline.authoring.questions import Answer, Question
    from trunkline.authoring.resources import (
        Resource,
        ResourceContent,
        ResourceTemplate,
        create_json_resource,
        create_text_resource,
    )
    from trunkline.authoring.server import MCPServerBase, MCPServerBaseConfig
    from trunkline.balance.groups import ServerGroup, ServerInfo, ServerWeight
    from trunkline.balance.router import ToolRouter, create_tool_router
    from trunkline.balance.routing import DEFAULT_ROUTER_CONFIG, RouteContext, RouterConfig, RoutingDecision
    from trunkline.call.batcher import (
        DEFAULT_BATCH_CONFIG,
        BatchConfig,
        BatchRequest,
        BatchResult,
        RequestBatcher,
        create_request_batcher,
    )
    from trunkline.call.cache import DEFAULT_CACHE_CONFIG, CacheConfig, CacheStats, ToolCache, create_tool_cache
    from trunkline.call.middleware.chain import CallNext, ToolContext, ToolMiddleware, create_tool_middleware_chain
    from trunkline.call.middleware.confirm import confirmation_middleware, create_confirmation_middleware
    from trunkline.call.middleware.deadline import create_timeout_middleware
    from trunkline.call.middleware.integration import ToolIntegrationManager, global_tool_integration_manager
    from trunkline.call.middleware.logs import create_logging_middleware, logging_middleware
    from trunkline.call.middleware.retry import create_retry_middleware
    from trunkline.call.middleware.validate import create_validation_middleware, validation_middleware
    from trunkline.call.middleware.wrap import (
        ToolWrapperOptions,
        wrap_tool_with_elicitation,
        wrap_tools_with_elicitation,
    )
    from trunkline.call.result_cache import ToolResultCache, create_tool_result_cache
    from trunkline.call.tool_batcher import ToolCallBatcher, create_tool_call_batcher
    from trunkline.config.options import (
        BatcherSection,
        CacheSection,
        Config,
        GatewayConfig,
        GroupSpec,
        MiddlewareSection,
        ProfileSpec,
        RouterSection,
        SearchSection,
        ServerSpec,
    )
    from trunkline.config.secrets import Secrets
    from trunkline.control.discovery.compatibility import CompatibilityCheckResult
    from trunkline.control.discovery.criteria import ToolSearchCriteria, ToolSearchResult
    from trunkline.control.discovery.manager import EnhancedToolDiscovery
    from trunkline.control.discovery.tool_info import EnhancedToolInfo
    from trunkline.control.multi_server import MultiServerManager, global_multi_server_manager
    from trunkline.control.multi_server_options import MultiServerConfig
    from trunkline.errors import ManifestError, TrunklineError
    from trunkline.hub import Hub, open_hub
    from trunkline.install.manifests.manifest import Manifest
    from trunkline.install.manifests.reader import read_manifest
    from trunkline.install.manifests.sources import Source, Sources
    from trunkline.install.marketplace.client import MCPRegistryClient, global_mcp_registry_client
    from trunkline.install.marketplace.entry import RegistryEntry
    from trunkline.install.marketplace.options import (
        MCPRegistryClientConfig,
        RegistryConfig,
        RegistrySearchOptions,
        RegistrySearchResult,
    )
    from trunkline.install.marketplace.server_json import get_all_well_known_servers, get_well_known_server
    from trunkline.model import Scope
    from trunkline.questions.fields import FileReference, FormField, Secret, SelectOption
    from trunkline.questions.kinds import Elicitation, ElicitationResponse
    from trunkline.questions.manager import (
        ElicitationManager,
        ElicitationManagerConfig,
        create_elicitation_context,
        global_elicitation_manager,
    )
    from trunkline.questions.protocol import (
        ElicitationProtocolAdapter,
        create_confirmation_request,
        create_form_request,
        create_select_request,
        create_text_input_request,
        global_elicitation_protocol,
        is_elicitation_protocol_message,
    )
    from trunkline.search.finder import Finder, SearchConfig
    from trunkline.search.text import ToolText
    from trunkline.tool import Annotations, Tool, ToolOptions, ToolResult
    from trunkline.tools.annotations import (
        create_annotated_tool,
        filter_tools_by_annotations,
        get_annotation_summary,
        get_tool_safety_level,
        infer_annotations,
        is_safe_to_retry,
        merge_annotations,
        requires_confirmation,
        validate_annotations,
    )
    from trunkline.tools.convert.anthropic import from_anthropic, to_anthropic
    from trunkline.tools.convert.definition import ToolConverterOptions
    from trunkline.tools.convert.function import create_tool_from_function
    from trunkline.tools.convert.gemini import from_gemini, to_gemini
    from trunkline.tools.convert.loss import Converted, Loss
    from trunkline.tools.convert.matrix import TOOL_COMPATIBILITY
    from trunkline.tools.convert.mcp import batch_convert_from_mcp, batch_convert_to_mcp, from_mcp_tool, to_mcp_tool
    from trunkline.tools.convert.openai import from_openai, to_openai
    from trunkline.tools.names import sanitize_tool_name, validate_tool_name

_NAMES = {
    "authoring.capabilities": "ServerCapabilitiesConfig ServerCapabilitiesManager",
    "authoring.content": "Audio Embedded Image Link",
    "authoring.decorators": "ToolServer",
    "authoring.context": "ask ask_all report_progress send_log was_cancelled",
    "authoring.exposable": (
        "ExposableAgent ExposableWorkflow ExposureMetadata ExposureOptions ExposureResult WorkflowStep"
    ),
    "authoring.exposure": (
        "AgentExposureManager enter_step expose_agent_as_tool expose_agents_as_tools expose_workflow_as_tool "
        "expose_workflows_as_tools global_agent_exposure_manager"
    ),
    "authoring.prompts": "Prompt PromptArgument PromptMessage PromptResult create_prompt",
    "authoring.questions": "Answer Question",
    "authoring.resources": "Resource ResourceContent ResourceTemplate create_json_resource create_text_resource",
    "authoring.server": "MCPServerBase MCPServerBaseConfig",
    "tools.convert.anthropic": "from_anthropic to_anthropic",
    "tools.convert.function": "create_tool_from_function",
    "tools.convert.gemini": "from_gemini to_gemini",
    "tools.convert.loss": "Converted Loss",
    "tools.convert.matrix": "TOOL_COMPATIBILITY",
    "tools.convert.mcp": "batch_convert_from_mcp batch_convert_to_mcp from_mcp_tool to_mcp_tool",
    "tools.names": "sanitize_tool_name validate_tool_name",
    "tools.convert.openai": "from_openai to_openai",
    "tools.convert.definition": "ToolConverterOptions",
    "balance.groups": "ServerGroup ServerInfo ServerWeight",
    "balance.router": "ToolRouter create_tool_router",
    "balance.routing": "DEFAULT_ROUTER_CONFIG RouteContext RouterConfig RoutingDecision",
    "call.batcher": "BatchConfig BatchRequest BatchResult DEFAULT_BATCH_CONFIG RequestBatcher create_request_batcher",
    "call.cache": "CacheConfig CacheStats DEFAULT_CACHE_CONFIG ToolCache create_tool_cache",
    "questions.fields": "FileReference FormField Secret SelectOption",
    "questions.kinds": "Elicitation ElicitationResponse",
    "questions.manager": (
        "ElicitationManager ElicitationManagerConfig create_elicitation_context global_elicitation_manager"
    ),
    "questions.protocol": (
        "ElicitationProtocolAdapter create_confirmation_request create_form_request create_select_request "
        "create_text_input_request global_elicitation_protocol is_elicitation_protocol_message"
    ),
    "call.middleware.chain": "CallNext ToolContext ToolMiddleware create_tool_middleware_chain",
    "call.middleware.confirm": "confirmation_middleware create_confirmation_middleware",
    "call.middleware.deadline": "create_timeout_middleware",
    "call.middleware.integration": "ToolIntegrationManager global_tool_integration_manager",
    "call.middleware.logs": "create_logging_middleware logging_middleware",
    "call.middleware.retry": "create_retry_middleware",
    "call.middleware.validate": "create_validation_middleware validation_middleware",
    "call.middleware.wrap": "ToolWrapperOptions wrap_tool_with_elicitation wrap_tools_with_elicitation",
    "call.result_cache": "ToolResultCache create_tool_result_cache",
    "call.tool_batcher": "ToolCallBatcher create_tool_call_batcher",
    "tools.annotations": (
        "create_annotated_tool filter_tools_by_annotations get_annotation_summary get_tool_safety_level "
        "infer_annotations is_safe_to_retry merge_annotations requires_confirmation validate_annotations"
    ),
    "config.options": (
        "BatcherSection CacheSection Config GatewayConfig GroupSpec MiddlewareSection ProfileSpec RouterSection "
        "SearchSection ServerSpec"
    ),
    "control.discovery.compatibility": "CompatibilityCheckResult",
    "control.discovery.criteria": "ToolSearchCriteria ToolSearchResult",
    "control.discovery.manager": "EnhancedToolDiscovery",
    "control.multi_server_options": "MultiServerConfig",
    "control.multi_server": "MultiServerManager global_multi_server_manager",
    "install.manifests.manifest": "Manifest",
    "install.manifests.reader": "read_manifest",
    "install.manifests.sources": "Source Sources",
    "install.marketplace.server_json": "get_all_well_known_servers get_well_known_server",
    "install.marketplace.client": "MCPRegistryClient global_mcp_registry_client",
    "install.marketplace.entry": "RegistryEntry",
    "install.marketplace.options": (
        "MCPRegistryClientConfig RegistryConfig RegistrySearchOptions RegistrySearchResult"
    ),
    "control.discovery.tool_info": "EnhancedToolInfo",
    "errors": "ManifestError TrunklineError",
    "hub": "Hub open_hub",
    "search.finder": "Finder SearchConfig",
    "search.text": "ToolText",
    "model": "Scope",
    "config.secrets": "Secrets",
    "tool": "Annotations Tool ToolOptions ToolResult",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import trunkline` stays instant."""
    if name not in _HOMES:
        raise AttributeError(f"module 'trunkline' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"trunkline.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
