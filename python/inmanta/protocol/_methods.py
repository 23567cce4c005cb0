"""The calls of the API by the names that clients know them by."""

from __future__ import annotations

_CATALOG = "/lsm/v1/service_catalog"
_VERSIONS = "/lsm/v2/service_catalog"
_INVENTORY = "/lsm/v1/service_inventory/{service_entity}"
_INSTANCE = _INVENTORY + "/{service_id}"
_EDITED = "/lsm/v2/service_inventory/{service_entity}/{service_id}"

# HTTP method, path, and the arguments in the order in which they may be given without a name. Those in braces are part of the
# path, `tid` goes into a header, what is left into the query of a GET, HEAD or DELETE, into the body of another method.
# Source: docs/reference/rest.md § 1 and docs/reference/lsm.md § 5, from which each call is here that the server answers.
METHODS: dict[str, tuple[str, str, str]] = {
    # Projects.
    "project_create": ("PUT", "/api/v2/project", "name project_id"),
    "project_modify": ("POST", "/api/v2/project/{id}", "id name"),
    "project_delete": ("DELETE", "/api/v2/project/{id}", "id"),
    "project_list": ("GET", "/api/v2/project", "environment_details"),
    "project_get": ("GET", "/api/v2/project/{id}", "id environment_details"),
    "create_project": ("PUT", "/api/v1/project", "name project_id"),
    "modify_project": ("POST", "/api/v1/project/{id}", "id name"),
    "delete_project": ("DELETE", "/api/v1/project/{id}", "id"),
    "list_projects": ("GET", "/api/v1/project", ""),
    "get_project": ("GET", "/api/v1/project/{id}", "id"),
    # Environments.
    "environment_create": ("PUT", "/api/v2/environment", "project_id name repository branch environment_id description icon"),
    "environment_modify": ("POST", "/api/v2/environment/{id}", "id name repository branch project_id description icon"),
    "environment_delete": ("DELETE", "/api/v2/environment/{id}", "id"),
    "environment_list": ("GET", "/api/v2/environment", "details"),
    "environment_get": ("GET", "/api/v2/environment/{id}", "id details"),
    "halt_environment": ("POST", "/api/v2/actions/environment/halt", "tid"),
    "resume_environment": ("POST", "/api/v2/actions/environment/resume", "tid"),
    "environment_clear": ("DELETE", "/api/v2/decommission/{id}", "id"),
    "create_environment": ("PUT", "/api/v1/environment", "project_id name repository branch environment_id"),
    "modify_environment": ("POST", "/api/v1/environment/{id}", "id name repository branch"),
    "delete_environment": ("DELETE", "/api/v1/environment/{id}", "id"),
    "list_environments": ("GET", "/api/v1/environment", ""),
    "clear_environment": ("DELETE", "/api/v1/decommission/{id}", "id"),
    "get_environment": ("GET", "/api/v1/environment/{id}", "id versions resources"),
    # Environment settings.
    "environment_settings_list": ("GET", "/api/v2/environment_settings", "tid"),
    "environment_settings_set": ("POST", "/api/v2/environment_settings/{id}", "tid id value"),
    "environment_setting_get": ("GET", "/api/v2/environment_settings/{id}", "tid id"),
    "environment_setting_delete": ("DELETE", "/api/v2/environment_settings/{id}", "tid id"),
    "protected_environment_settings_set_batch": ("POST", "/api/v2/protected_environment_settings", "tid settings protected_by"),
    "list_settings": ("GET", "/api/v1/environment_settings", "tid"),
    "set_setting": ("POST", "/api/v1/environment_settings/{id}", "tid id value"),
    "get_setting": ("GET", "/api/v1/environment_settings/{id}", "tid id"),
    "delete_setting": ("DELETE", "/api/v1/environment_settings/{id}", "tid id"),
    # Compiles.
    "notify_change": ("POST", "/api/v1/notify/{id}", "id update metadata reinstall"),
    "notify_change_get": ("GET", "/api/v1/notify/{id}", "id update reinstall"),
    "is_compiling": ("HEAD", "/api/v1/notify/{id}", "id"),
    "get_compile_reports": ("GET", "/api/v2/compilereport", "tid limit first_id last_id start end filter sort"),
    "compile_details": ("GET", "/api/v2/compilereport/{id}", "tid id"),
    "get_compile_data": ("GET", "/api/v2/compiledata/{id}", "id"),
    "get_compile_queue": ("GET", "/api/v1/compilequeue", "tid"),
    "get_reports": ("GET", "/api/v1/compilereport", "tid start end limit"),
    "get_report": ("GET", "/api/v1/compilereport/{id}", "id"),
    # Versions and desired state.
    "list_desired_state_versions": ("GET", "/api/v2/desiredstate", "tid limit start end filter sort"),
    "promote_desired_state_version": ("POST", "/api/v2/desiredstate/{version}/promote", "tid version trigger_method"),
    "get_resources_in_version": (
        "GET",
        "/api/v2/desiredstate/{version}",
        "tid version limit first_id last_id start end filter sort",
    ),
    "get_diff_of_versions": ("GET", "/api/v2/desiredstate/diff/{from_version}/{to_version}", "tid from_version to_version"),
    "versioned_resource_details": ("GET", "/api/v2/desiredstate/{version}/resource/{rid}", "tid version rid"),
    "delete_version": ("DELETE", "/api/v1/version/{id}", "tid id"),
    "release_version": ("POST", "/api/v1/version/{id}", "tid id push agent_trigger_method"),
    "reserve_version": ("POST", "/api/v2/reserve_version", "tid"),
    "put_version": (
        "PUT",
        "/api/v1/version",
        "tid version resources module_version_info resource_state unknowns version_info resource_sets pip_config project_constraints",
    ),
    "put_partial": (
        "PUT",
        "/api/v2/version/partial",
        "tid module_version_info resource_state unknowns resource_sets removed_resource_sets pip_config allow_handler_code_update",
    ),
    "list_versions": ("GET", "/api/v1/version", "tid start limit"),
    "get_version": ("GET", "/api/v1/version/{id}", "tid id include_logs log_filter limit"),
    # Resources, logs, deploy.
    "resource_list": ("GET", "/api/v2/resource", "tid limit first_id last_id start end filter sort deploy_summary"),
    "resource_details": ("GET", "/api/v2/resource/{rid}", "tid rid"),
    "resource_history": ("GET", "/api/v2/resource/{rid}/history", "tid rid limit first_id last_id start end sort"),
    "resource_logs": ("GET", "/api/v2/resource/{rid}/logs", "tid rid limit start end filter sort"),
    "get_resource_actions": (
        "GET",
        "/api/v2/resource_actions",
        "tid resource_type agent attribute attribute_value log_severity limit action_id first_timestamp last_timestamp exclude_changes",
    ),
    "get_compliance_report": ("POST", "/api/v2/compliance_report", "tid resource_ids"),
    "get_resource_events": ("GET", "/api/v2/resource/{rvid}/events", "tid rvid exclude_change"),
    "resource_did_dependency_change": ("GET", "/api/v2/resource/{rvid}/did_dependency_change", "tid rvid"),
    "deploy": ("POST", "/api/v1/deploy", "tid agent_trigger_method agents"),
    "get_resource": ("GET", "/api/v1/resource/{id}", "tid id logs log_action log_limit"),
    "deploy_filtered": ("POST", "/api/v2/deploy_filtered", "tid filter agent_trigger_method"),
    "get_scheduler_status": ("GET", "/api/v2/scheduler_status", "tid"),
    # Facts and parameters.
    "get_facts": ("GET", "/api/v2/resource/{rid}/facts", "tid rid"),
    "get_fact": ("GET", "/api/v2/resource/{rid}/facts/{id}", "tid rid id"),
    "get_all_facts": ("GET", "/api/v2/facts", "tid limit first_id last_id start end filter sort"),
    "set_fact": ("PUT", "/api/v2/facts/{name}", "tid name source value resource_id metadata recompile expires"),
    "get_parameters": ("GET", "/api/v2/parameters", "tid limit first_id last_id start end filter sort"),
    "set_parameter": ("PUT", "/api/v2/parameters/{name}", "tid name source value metadata recompile"),
    "get_param": ("GET", "/api/v1/parameter/{id}", "tid id resource_id"),
    "set_param": ("PUT", "/api/v1/parameter/{id}", "tid id source value resource_id metadata recompile expires"),
    "delete_param": ("DELETE", "/api/v1/parameter/{id}", "tid id resource_id"),
    "list_params": ("POST", "/api/v1/parameter", "tid query"),
    "set_parameters": ("PUT", "/api/v1/parameters", "tid parameters"),
    # Dry run.
    "dryrun_trigger": ("POST", "/api/v2/dryrun/{version}", "tid version"),
    "list_dryruns": ("GET", "/api/v2/dryrun/{version}", "tid version"),
    "get_dryrun_diff": ("GET", "/api/v2/dryrun/{version}/{report_id}", "tid version report_id"),
    "diff": ("POST", "/api/v1/filediff", "file_id_1 file_id_2"),
    "dryrun_filtered": ("POST", "/api/v2/dryrun_filtered", "tid filter context"),
    "dryrun_request": ("POST", "/api/v1/dryrun/{id}", "tid id"),
    "dryrun_list": ("GET", "/api/v1/dryrun", "tid version"),
    "dryrun_report": ("GET", "/api/v1/dryrun/{id}", "tid id"),
    "dryrun_update": ("PUT", "/api/v1/dryrun/{id}", "tid id resource changes"),
    # Agents.
    "get_agents": ("GET", "/api/v2/agents", "tid limit start end first_id last_id filter sort"),
    "agent_action": ("POST", "/api/v2/agent/{name}/{action}", "tid name action"),
    "all_agents_action": ("POST", "/api/v2/agents/{action}", "tid action"),
    "get_agent_process_details": ("GET", "/api/v2/agents/process/{id}", "tid id report"),
    "list_agents": ("GET", "/api/v1/agent", "tid start end limit"),
    "list_agent_processes": ("GET", "/api/v1/agentproc", "environment expired start end limit"),
    "get_agent_process": ("GET", "/api/v1/agentproc/{id}", "id"),
    "get_state": ("GET", "/api/v2/agentrecovery", "tid agent"),
    # Notifications.
    "list_notifications": ("GET", "/api/v2/notification", "tid limit first_id last_id start end filter sort"),
    "get_notification": ("GET", "/api/v2/notification/{notification_id}", "tid notification_id"),
    "update_notification": ("PATCH", "/api/v2/notification/{notification_id}", "tid notification_id read cleared"),
    # Discovery.
    "discovered_resources_get_batch": ("GET", "/api/v2/discovered", "tid limit start end sort filter"),
    "discovered_resources_get": ("GET", "/api/v2/discovered/{discovered_resource_id}", "tid discovered_resource_id"),
    "discovered_resource_delete": ("DELETE", "/api/v2/discovered/{discovered_resource_id}", "tid discovered_resource_id"),
    "discovered_resource_delete_batch": ("DELETE", "/api/v2/discovered/", "tid discovered_resource_ids"),
    "discovered_resource_create": (
        "POST",
        "/api/v2/discovered/{discovered_resource_id}",
        "tid discovered_resource_id discovery_resource_id",
    ),
    "discovered_resource_create_batch": ("POST", "/api/v2/discovered/", "tid discovered_resources"),
    # Metrics.
    "get_environment_metrics": (
        "GET",
        "/api/v2/metrics",
        "tid metrics start_interval end_interval nb_datapoints round_timestamps",
    ),
    # Tokens, users, roles.
    "environment_create_token": ("POST", "/api/v2/environment_auth", "tid client_types idempotent expire"),
    "environment_token_list": ("GET", "/api/v2/environment_auth", "tid"),
    "environment_token_revoke": ("DELETE", "/api/v2/environment_auth/{jti}", "tid jti"),
    "create_token": ("POST", "/api/v1/environment_auth", "tid client_types idempotent"),
    # Files and code.
    "get_file": ("GET", "/api/v1/file/{id}", "id"),
    "upload_file": ("PUT", "/api/v1/file/{id}", "id content"),
    "stat_file": ("HEAD", "/api/v1/file/{id}", "id"),
    "stat_files": ("POST", "/api/v1/file", "files"),
    "get_pip_config": ("GET", "/api/v2/pip/config/{version}", "tid version"),
    # Status, documentation, GraphQL, console files.
    "get_server_status": ("GET", "/api/v1/serverstatus", ""),
    "health": ("GET", "/api/v2/health", ""),
    "is_bool_feature_enabled": ("GET", "/api/v2/feature/bool", "slice_name feature_name"),
    "get_current_user": ("GET", "/api/v2/current_user", ""),
    "get_api_docs": ("GET", "/api/v2/docs", "format token swagger_description"),
    # Services.
    "lsm_service_catalog_list": ("GET", _CATALOG, "tid instance_summary"),
    "lsm_service_catalog_create_entity": ("POST", _CATALOG, "tid service_entity_definition"),
    "lsm_service_catalog_get_entity": ("GET", _CATALOG + "/{service_entity}", "tid service_entity instance_summary"),
    "lsm_service_catalog_update_entity": ("PUT", _CATALOG + "/{service_entity}", "tid service_entity service_entity_definition"),
    "lsm_service_catalog_delete_entity": ("DELETE", _CATALOG + "/{service_entity}", "tid service_entity"),
    "lsm_service_catalog_get_entity_version": ("GET", _VERSIONS + "/{service_entity}/{version}", "tid service_entity version"),
    "lsm_service_catalog_update_entity_versions": (
        "PUT",
        _VERSIONS + "/{service_entity}",
        "tid service_entity service_entity_definitions default_version",
    ),
    "lsm_services_openapi_docs": ("GET", "/lsm/v1/service_catalog_docs", "environment token"),
    "lsm_export_service_definition": ("POST", "/lsm/v1/exporter/export_service_definition", "tid force_update"),
    "lsm_services_list": ("GET", _INVENTORY, "tid service_entity"),
    "lsm_services_create": ("POST", _INVENTORY, "tid service_entity attributes"),
    "lsm_services_get": ("GET", _INSTANCE, "tid service_entity service_id current_version"),
    "lsm_services_get_by_id": ("GET", "/lsm/v1/service_inventory", "tid service_id"),
    "lsm_services_update": ("PATCH", _INSTANCE, "tid service_entity service_id"),
    "lsm_services_put": ("PUT", _INSTANCE, "tid service_entity service_id"),
    "lsm_services_patch": ("PATCH", _EDITED, "tid service_entity service_id"),
    "lsm_services_delete": ("DELETE", _INSTANCE, "tid service_entity service_id current_version"),
    "lsm_services_set_state": ("POST", _INSTANCE + "/state", "tid service_entity service_id"),
    "lsm_services_update_entity_version": ("PATCH", _INSTANCE + "/update_entity_version", "tid service_entity service_id"),
    "lsm_services_resources_list": ("GET", _INSTANCE + "/resources", "tid service_entity service_id"),
    "lsm_services_diagnose": ("GET", _INSTANCE + "/diagnose", "tid service_entity service_id"),
    "lsm_service_log_list": ("GET", _INSTANCE + "/log", "tid service_entity service_id"),
    "lsm_order_create": ("POST", "/lsm/v2/order", "tid service_order_items"),
    "lsm_order_get": ("GET", "/lsm/v2/order/{order_id}", "tid order_id"),
}

_USERS = "it has tokens, and neither users nor roles"
_PAGES = "it has no console; the lists of version 2 of the API have the same filters"

# Calls of the reference that the server does not have, and why. Source: docs/reference/rest.md § 7.
ABSENT: dict[str, str] = {
    **dict.fromkeys("login login_renew list_users add_user delete_user set_password set_is_admin".split(), _USERS),
    **dict.fromkeys("list_roles create_role delete_role list_roles_for_user assign_role unassign_role".split(), _USERS),
    **dict.fromkeys("graphql graphql_schema".split(), _PAGES),
}
