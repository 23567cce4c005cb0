"""The calls of the lifecycle service manager, by the names that clients know them by."""

from __future__ import annotations

_CATALOG = "/lsm/v1/service_catalog"
_VERSIONS = "/lsm/v2/service_catalog"
_INVENTORY = "/lsm/v1/service_inventory/{service_entity}"
_INSTANCE = _INVENTORY + "/{service_id}"
_EDITED = "/lsm/v2/service_inventory/{service_entity}/{service_id}"

# As `METHODS` of `inmanta.protocol._methods`. Source: docs/reference/lsm.md § 5.
SERVICE_METHODS: dict[str, tuple[str, str, str]] = {
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
