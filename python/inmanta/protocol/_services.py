"""The calls of the lifecycle service manager, by the names that clients know them by."""

from __future__ import annotations

_CATALOG = "/lsm/v1/service_catalog"
_VERSIONS = "/lsm/v2/service_catalog"
_INVENTORY = "/lsm/v1/service_inventory/{service_entity}"
_INSTANCE = _INVENTORY + "/{service_id}"
_EDITED = "/lsm/v2/service_inventory/{service_entity}/{service_id}"

# As `_METHODS` of `inmanta.protocol.endpoints`. Source: docs/reference/lsm.md § 5.
SERVICE_METHODS: dict[str, tuple[str, str]] = {
    "lsm_service_catalog_list": ("GET", _CATALOG),
    "lsm_service_catalog_create_entity": ("POST", _CATALOG),
    "lsm_service_catalog_get_entity": ("GET", _CATALOG + "/{service_entity}"),
    "lsm_service_catalog_update_entity": ("PUT", _CATALOG + "/{service_entity}"),
    "lsm_service_catalog_delete_entity": ("DELETE", _CATALOG + "/{service_entity}"),
    "lsm_service_catalog_get_entity_version": ("GET", _VERSIONS + "/{service_entity}/{version}"),
    "lsm_service_catalog_update_entity_versions": ("PUT", _VERSIONS + "/{service_entity}"),
    "lsm_services_list": ("GET", _INVENTORY),
    "lsm_services_create": ("POST", _INVENTORY),
    "lsm_services_get": ("GET", _INSTANCE),
    "lsm_services_get_by_id": ("GET", "/lsm/v1/service_inventory"),
    "lsm_services_update": ("PATCH", _INSTANCE),
    "lsm_services_patch": ("PATCH", _EDITED),
    "lsm_services_delete": ("DELETE", _INSTANCE),
    "lsm_services_set_state": ("POST", _INSTANCE + "/state"),
    "lsm_services_resources_list": ("GET", _INSTANCE + "/resources"),
    "lsm_services_diagnose": ("GET", _INSTANCE + "/diagnose"),
    "lsm_service_log_list": ("GET", _INSTANCE + "/log"),
    "lsm_order_create": ("POST", "/lsm/v2/order"),
    "lsm_order_get": ("GET", "/lsm/v2/order/{order_id}"),
}
