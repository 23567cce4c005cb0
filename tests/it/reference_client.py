"""Calls a server with the Python client of the reference, and writes down what it answers.

    reference_client.py run PORT OUT [TOKEN]   calls everything, writes a JSON object with a line for each call
    reference_client.py compare A B            prints how the answers in B differ from those in A
    reference_client.py methods                prints name, verb and path of each method that the client knows, a line each

Answers are reduced to what does not depend on the run: ids and times become words, texts of errors go. Runs need a Python
with inmanta-core; the comparison needs none.
"""

import base64
import datetime
import hashlib
import json
import re
import sys
import time
import uuid

UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
MOMENT = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?$")
# Texts of people and of programs: that they are there is compared, not what they say.
TEXTS = {"doc", "message", "msg", "warnings", "failure", "outstream", "errstream", "command", "log_context"}
# Numbers that count or measure.
MEASURED = {"expires_in", "lag", "free_memory"}

# The resources of the first version: type, agent, id value, attributes.
ROUTERS = ("r1", "r2", "r3")


def rid(name):
    """The id of one of the resources."""
    return f"test::Router[agent{name},name={name}]"


def routers(version, desired="one"):
    """A version's resources, each with `requires` on the one before it."""
    made = []
    for place, name in enumerate(ROUTERS):
        requires = [f"{rid(ROUTERS[place - 1])},v={version}"] if place else []
        made.append(
            {
                "id": f"{rid(name)},v={version}",
                "name": name,
                "agent": f"agent{name}",
                "value": desired if name == "r1" else "fixed",
                "nested": {"b": [1, None], "a": desired == "one" or name != "r1"},
                "note": "a text" if desired == "two" and name == "r1" else None,
                "requires": requires,
                "purged": False,
                "purge_on_delete": False,
                "send_event": False,
                "receive_events": True,
            }
        )
    return made


# The code of their handler: on the device `value` is always "fixed".
PLUGIN = """
from inmanta.agent.handler import CRUDHandler, provider
from inmanta.resources import PurgeableResource, resource


@resource("test::Router", agent="agent", id_attribute="name")
class Router(PurgeableResource):
    fields = ("name", "agent", "value", "nested", "note")


@provider("test::Router", name="router")
class RouterHandler(CRUDHandler):
    def read_resource(self, ctx, resource):
        ctx.info("Reading %(name)s", name=resource.name)
        resource.value = "fixed"

    def create_resource(self, ctx, resource):
        ctx.set_created()

    def update_resource(self, ctx, changes, resource):
        ctx.set_updated()

    def delete_resource(self, ctx, resource):
        ctx.set_purged()
"""


FILES = {
    "inmanta_plugins/test/__init__.py": PLUGIN,
    "model/_init.cf": "",
    "setup.cfg": """
[metadata]
name = inmanta-module-test
version = 1.0.0
[options]
zip_safe = False
include_package_data = True
packages = find_namespace:
""",
    "pyproject.toml": """
[build-system]
requires = ["setuptools", "wheel"]
build-backend = "setuptools.build_meta"
""",
}


def digest_of(content):
    """The name of a content in the file store."""
    return hashlib.sha1(content.encode()).hexdigest()


def modules():
    """The Python module of a version, as exporters name it."""
    files = [{"path": path, "hash_value": digest_of(content)} for path, content in FILES.items()]
    agents = [f"agent{name}" for name in ROUTERS]
    version = digest_of("".join(file["hash_value"] for file in files))
    module = {"name": "test", "version": version, "files_in_module": files, "requirements": []}
    return {"test": {**module, "load_module_on_agents": agents, "editable_install": True}}


class Recorder:
    """The calls so far, by a name of their own."""

    def __init__(self, client):
        self.client = client
        self.calls = {}

    def __call__(self, label, method, /, **arguments):
        result = getattr(self.client, method)(**arguments)
        body = result.result
        shown = shape(body, result.code)
        if method == "resource_logs" and result.code == 200:
            # So is how many lines there are.
            shown["metadata"] = sorted(shown["metadata"])
        self.calls[label] = {"method": method, "code": result.code, "body": shown}
        return body if result.code == 200 else None

    def until(self, is_done, method, /, **arguments):
        """Calls until it is so; nothing is written down."""
        for _ in range(300):
            body = getattr(self.client, method)(**arguments)
            if is_done(body.result):
                return body.result
            time.sleep(0.1)
        raise TimeoutError(f"{method} {arguments}: {body.result}")


def shape(value, code=200, key=""):
    """What of an answer stays the same from run to run."""
    if code >= 400:
        return {"message": "<text>"} if isinstance(value, dict) and "message" in value else value
    if isinstance(value, dict):
        if key == "kwargs":
            return {}
        return {anonymous(name): shape(item, key=name) for name, item in value.items()}
    if isinstance(value, list):
        if key == "messages":
            # How many lines a run has is not the API's.
            return [{name: shape(item, key=name) for name, item in line.items()} for line in value[:1]]
        return [shape(item, key=key) for item in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return "<number>" if key in MEASURED else value
    if UUID.match(value):
        return "<id>"
    if MOMENT.match(value):
        return "<moment>"
    if key in TEXTS:
        return "<text>"
    if re.fullmatch(r"[0-9a-f]{32,128}", value):
        return "<digest>"
    return anonymous(value)


def anonymous(text):
    """A text without the ids and moments in it."""
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>", text)
    return re.sub(r"\d{4}-\d\d-\d\d(T|%20| )\d\d(:|%3A)\d\d(:|%3A)\d\d[^&]*", "<moment>", text)


def projects(call):
    """Projects and environments, of both versions of the API."""
    made = call("create_project", "create_project", name="first")["project"]
    call("create_project twice", "create_project", name="first")
    call("list_projects", "list_projects")
    call("get_project", "get_project", id=made["id"])
    call("get_project unknown", "get_project", id=uuid.uuid4())
    call("modify_project", "modify_project", id=made["id"], name="renamed")
    second = call("project_create", "project_create", name="second")["data"]
    call("project_list", "project_list")
    call("project_list with details", "project_list", environment_details=True)
    call("project_get", "project_get", id=second["id"])
    call("project_get unknown", "project_get", id=uuid.uuid4())
    call("project_modify", "project_modify", id=second["id"], name="second again")
    call("project_modify taken", "project_modify", id=second["id"], name="renamed")
    call("project_modify unknown", "project_modify", id=uuid.uuid4(), name="x")
    call("project_delete", "project_delete", id=second["id"])
    call("project_delete again", "project_delete", id=second["id"])
    call("delete_project unknown", "delete_project", id=uuid.uuid4())
    return made["id"]


def environments(call, project):
    """The environment that all further calls are about."""
    one = call("create_environment", "create_environment", project_id=project, name="old")["environment"]
    call("create_environment twice", "create_environment", project_id=project, name="old")
    call("create_environment no project", "create_environment", project_id=uuid.uuid4(), name="x")
    call("list_environments", "list_environments")
    call("modify_environment", "modify_environment", id=one["id"], name="older")
    call("modify_environment unknown", "modify_environment", id=uuid.uuid4(), name="older")
    call("get_project with environment", "get_project", id=project)
    call("delete_environment", "delete_environment", id=one["id"])
    call("delete_environment again", "delete_environment", id=one["id"])
    env = call("environment_create", "environment_create", project_id=project, name="env", description="About it")
    env = env["data"]["id"]
    call("environment_create without branch", "environment_create", project_id=project, name="e2", repository="x")
    call("environment_create long description", "environment_create", project_id=project, name="e2", description="x" * 256)
    call("environment_list", "environment_list")
    call("environment_list with details", "environment_list", details=True)
    call("environment_get", "environment_get", id=env)
    call("environment_get unknown", "environment_get", id=uuid.uuid4())
    call("environment_modify", "environment_modify", id=env, name="env", description="Another")
    call("project_get with environment", "project_get", id=project)
    return env


def settings(call, env):
    """Settings, of both versions of the API."""
    call("environment_settings_list", "environment_settings_list", tid=env)
    call("list_settings", "list_settings", tid=env)
    call("environment_settings_set", "environment_settings_set", tid=env, id="auto_deploy", value=False)
    call("environment_settings_set text", "environment_settings_set", tid=env, id="recompile_backoff", value="0.2")
    call("environment_settings_set unknown", "environment_settings_set", tid=env, id="no_such", value=1)
    call("environment_settings_set bad", "environment_settings_set", tid=env, id="auto_deploy", value="maybe")
    call("environment_setting_get", "environment_setting_get", tid=env, id="auto_deploy")
    call("environment_setting_get default", "environment_setting_get", tid=env, id="server_compile")
    call("environment_setting_get unknown", "environment_setting_get", tid=env, id="no_such")
    call("set_setting", "set_setting", tid=env, id="autostart_agent_repair_interval", value="0")
    call("set_setting deploy", "set_setting", tid=env, id="autostart_agent_deploy_interval", value=0)
    call("set_setting unknown", "set_setting", tid=env, id="no_such", value=1)
    call("set_setting bad", "set_setting", tid=env, id="auto_deploy", value="maybe")
    call("get_setting", "get_setting", tid=env, id="auto_deploy")
    call("get_setting unknown", "get_setting", tid=env, id="no_such")
    call("set_setting purge", "set_setting", tid=env, id="available_versions_to_keep", value=50)
    call("delete_setting", "delete_setting", tid=env, id="available_versions_to_keep")
    call("delete_setting unknown", "delete_setting", tid=env, id="no_such")
    call("environment_setting_delete", "environment_setting_delete", tid=env, id="recompile_backoff")
    call("environment_setting_delete unknown", "environment_setting_delete", tid=env, id="no_such")
    protected = {"settings": {"notification_retention": 30}, "protected_by": "project_yml"}
    call("protected_environment_settings_set_batch", "protected_environment_settings_set_batch", tid=env, **protected)
    call("environment_settings_set protected", "environment_settings_set", tid=env, id="notification_retention", value=5)
    call("delete_setting protected", "delete_setting", tid=env, id="notification_retention")
    call("environment_settings_list after", "environment_settings_list", tid=env)
    call("environment_get with settings", "environment_get", id=env, details=True)


def files(call):
    """The file store."""
    content = b"the content of a file\n"
    digest = hashlib.sha1(content).hexdigest()
    call("stat_file missing", "stat_file", id=digest)
    call("upload_file", "upload_file", id=digest, content=base64.b64encode(content).decode())
    call("upload_file wrong", "upload_file", id="0" * 40, content=base64.b64encode(content).decode())
    call("stat_file", "stat_file", id=digest)
    call("get_file", "get_file", id=digest)
    call("get_file unknown", "get_file", id="0" * 40)
    call("stat_files", "stat_files", files=[digest, "1" * 40])
    other = b"the content of another file\n"
    second = hashlib.sha1(other).hexdigest()
    call("upload_file second", "upload_file", id=second, content=base64.b64encode(other).decode())
    call("diff", "diff", file_id_1=digest, file_id_2=second)


def versions(call, env):
    """Three versions: stored, released, compared."""
    call("list_versions none", "list_versions", tid=env)
    call("list_desired_state_versions none", "list_desired_state_versions", tid=env)
    call("resource_list none", "resource_list", tid=env)
    call("get_version unknown", "get_version", tid=env, id=1)
    for path, content in FILES.items():
        encoded = base64.b64encode(content.encode()).decode()
        call(f"upload_file {path}", "upload_file", id=digest_of(content), content=encoded)
    for desired in ("one", "two"):
        number = call(f"reserve_version {desired}", "reserve_version", tid=env)["data"]
        info = {"export_metadata": {"type": "manual", "message": f"Version {desired}", "hostname": "host"}}
        put = {"resources": routers(number, desired), "module_version_info": modules(), "version_info": info}
        call(f"put_version {desired}", "put_version", tid=env, version=number, **put)
    call("put_version taken", "put_version", tid=env, version=1, resources=[], module_version_info=modules())
    call("put_version zero", "put_version", tid=env, version=0, resources=[], module_version_info={})
    broken = [{**routers(3)[0], "requires": ["test::Router[agentx,name=x],v=3"]}]
    number = call("reserve_version three", "reserve_version", tid=env)["data"]
    call("put_version dangling", "put_version", tid=env, version=number, resources=broken, module_version_info={})
    call("list_versions", "list_versions", tid=env)
    call("list_versions page", "list_versions", tid=env, start=0, limit=1)
    call("get_version", "get_version", tid=env, id=1)
    call("get_version limit", "get_version", tid=env, id=1, limit=1)
    call("list_desired_state_versions", "list_desired_state_versions", tid=env)
    call("list_desired_state_versions page", "list_desired_state_versions", tid=env, limit=1)
    call("list_desired_state_versions ascending", "list_desired_state_versions", tid=env, limit=1, sort="version.asc")
    for label, filtered in {
        "candidate": {"status": ["candidate"]},
        "range": {"version": ["lt:2"]},
        "date": {"date": ["ge:2020-01-01+00:00:00"]},
        "unknown": {"no_such": ["x"]},
    }.items():
        call(f"list_desired_state_versions {label}", "list_desired_state_versions", tid=env, filter=filtered)
    call("list_desired_state_versions bad sort", "list_desired_state_versions", tid=env, sort="nothing.desc")
    call("get_resources_in_version", "get_resources_in_version", tid=env, version=1, sort="resource_id_value.asc")
    call("get_resources_in_version page", "get_resources_in_version", tid=env, version=1, limit=2, sort="agent.asc")
    call("get_resources_in_version down", "get_resources_in_version", tid=env, version=1, limit=2, sort="agent.desc")
    filtered = {"agent": ["r2"], "resource_type": ["router"], "resource_id_value": ["R2"]}
    call("get_resources_in_version filtered", "get_resources_in_version", tid=env, version=1, filter=filtered, sort="agent.asc")
    call("get_resources_in_version unknown", "get_resources_in_version", tid=env, version=77)
    call("versioned_resource_details", "versioned_resource_details", tid=env, version=1, rid=rid("r2"))
    call("versioned_resource_details unknown", "versioned_resource_details", tid=env, version=1, rid=rid("x"))
    call("get_diff_of_versions", "get_diff_of_versions", tid=env, from_version=1, to_version=2)
    call("get_diff_of_versions back", "get_diff_of_versions", tid=env, from_version=2, to_version=1)
    call("get_diff_of_versions unknown", "get_diff_of_versions", tid=env, from_version=1, to_version=77)
    call("get_pip_config", "get_pip_config", tid=env, version=1)
    call("get_pip_config unknown", "get_pip_config", tid=env, version=77)
    call("release_version", "release_version", tid=env, id=1)
    call("release_version again", "release_version", tid=env, id=1)
    call("release_version unknown", "release_version", tid=env, id=77)
    call("delete_version active", "delete_version", tid=env, id=1)
    is_active = lambda number: lambda body: any(
        one["status"] == "active" and one["version"] == number for one in body["data"]
    )
    call.until(is_active(1), "list_desired_state_versions", tid=env)
    call("promote", "promote_desired_state_version", tid=env, version=2, trigger_method="push_full_deploy")
    call("promote again", "promote_desired_state_version", tid=env, version=2)
    call("promote unknown", "promote_desired_state_version", tid=env, version=77)
    is_second = lambda body: [one["resource_version_id"][-2:] for one in body["data"]] == ["=2"] * 3
    call.until(is_second, "resource_list", tid=env)
    call("list_desired_state_versions released", "list_desired_state_versions", tid=env)
    call("list_versions released", "list_versions", tid=env)


def resources(call, env):
    """The resources of the version in force."""

    def is_settled(body):
        by_state = body["metadata"]["deploy_summary"]["by_state"]
        return body["metadata"]["deploy_summary"]["total"] == 3 and not by_state["deploying"] and not by_state["available"]

    call.until(is_settled, "resource_list", tid=env, deploy_summary=True)
    call("resource_list", "resource_list", tid=env, sort="agent.asc")
    call("resource_list summary", "resource_list", tid=env, deploy_summary=True, limit=1, sort="resource_id_value.asc")
    call("resource_list default", "resource_list", tid=env)
    call("resource_list down", "resource_list", tid=env, sort="resource_id_value.desc", limit=2)
    call("resource_list status", "resource_list", tid=env, filter={"status": ["deployed", "!orphaned"]}, sort="agent.asc")
    call("resource_list others", "resource_list", tid=env, filter={"status": ["!deployed"]}, sort="agent.asc")
    call("resource_list type", "resource_list", tid=env, filter={"resource_type": ["rout"]}, sort="agent.asc", limit=1)
    call("resource_list bad filter", "resource_list", tid=env, filter={"no_such": ["x"]})
    call("resource_list bad sort", "resource_list", tid=env, sort="no_such.asc")
    call("resource_list bad limit", "resource_list", tid=env, limit=1001)
    call("resource_details", "resource_details", tid=env, rid=rid("r2"))
    call("resource_details unknown", "resource_details", tid=env, rid=rid("x"))
    call("resource_history", "resource_history", tid=env, rid=rid("r1"))
    call("resource_history page", "resource_history", tid=env, rid=rid("r1"), limit=1)
    call("resource_history up", "resource_history", tid=env, rid=rid("r1"), limit=1, sort="date.asc")
    call("resource_history unknown", "resource_history", tid=env, rid=rid("x"))
    logs = call("resource_logs", "resource_logs", tid=env, rid=rid("r1"), limit=1)
    call("resource_logs level", "resource_logs", tid=env, rid=rid("r1"), filter={"minimal_log_level": ["CRITICAL"]})
    call("resource_logs action", "resource_logs", tid=env, rid=rid("r1"), filter={"action": ["dryrun"]})
    call("resource_logs bad", "resource_logs", tid=env, rid=rid("r1"), filter={"no_such": ["x"]})
    call("get_resource", "get_resource", tid=env, id=f"{rid('r1')},v=2")
    call("get_resource logs", "get_resource", tid=env, id=f"{rid('r1')},v=2", logs=True, log_action="deploy", log_limit=1)
    call("get_resource unknown", "get_resource", tid=env, id=f"{rid('x')},v=2")
    call("get_resource no id", "get_resource", tid=env, id="x")
    call("get_resource_actions", "get_resource_actions", tid=env, attribute="name", attribute_value="r1", limit=1)
    call("get_resource_actions type", "get_resource_actions", tid=env, resource_type="test::Router", agent="agentr2", limit=1)
    call("get_resource_actions severity", "get_resource_actions", tid=env, attribute="name", attribute_value="r1", log_severity="CRITICAL")
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    call("get_resource_actions later", "get_resource_actions", tid=env, limit=10, first_timestamp=later)
    call("get_resource_events", "get_resource_events", tid=env, rvid=f"{rid('r1')},v=2")
    call("did_dependency_change", "resource_did_dependency_change", tid=env, rvid=f"{rid('r1')},v=2")
    call("get_compliance_report", "get_compliance_report", tid=env, resource_ids=[rid("r1")])
    call("get_compliance_report unknown", "get_compliance_report", tid=env, resource_ids=[rid("x")])
    call("get_version with logs", "get_version", tid=env, id=2, include_logs=True, log_filter="deploy", limit=1)
    call("get_scheduler_status", "get_scheduler_status", tid=env)
    return logs


def deployments(call, env):
    """Deploys, agents, halting."""
    call("get_agents", "get_agents", tid=env, filter={"name": ["agentr"]})
    call("get_agents page", "get_agents", tid=env, limit=1, sort="name.desc", filter={"name": ["agentr"]})
    call("get_agents bad", "get_agents", tid=env, filter={"no_such": ["x"]})
    call("list_agents", "list_agents", tid=env)
    call("list_agents limit", "list_agents", tid=env, limit=1)
    call("list_agent_processes", "list_agent_processes", environment=uuid.uuid4())
    call("get_agent_process unknown", "get_agent_process", id=uuid.uuid4())
    call("get_agent_process_details unknown", "get_agent_process_details", tid=env, id=uuid.uuid4())
    call("get_state", "get_state", tid=env, agent="agentr1")
    call("agent pause", "agent_action", tid=env, name="agentr3", action="pause")
    call("get_state paused", "get_state", tid=env, agent="agentr3")
    call("get_agents paused", "get_agents", tid=env, filter={"name": ["agentr3"], "status": ["paused"]})
    call("agent unpause", "agent_action", tid=env, name="agentr3", action="unpause")
    call("agent unpause_on_resume", "agent_action", tid=env, name="agentr3", action="unpause_on_resume")
    call("agent unknown action", "agent_action", tid=env, name="agentr3", action="dance")
    call("all agents pause", "all_agents_action", tid=env, action="pause")
    call("all agents unpause", "all_agents_action", tid=env, action="unpause")
    call("deploy", "deploy", tid=env, agents=["agentr1"])
    call("deploy incremental", "deploy", tid=env, agent_trigger_method="push_incremental_deploy", agents=["agentr2", "nobody"])
    call("deploy unknown", "deploy", tid=env, agents=["nobody"])
    by_agent = {"agent": {"eq": ["agentr2"]}}
    call("deploy_filtered", "deploy_filtered", tid=env, filter=by_agent)
    call("deploy_filtered text", "deploy_filtered", tid=env, filter={"resourceIdValue": {"contains": ["%R3%"]}})
    call("deploy_filtered version", "deploy_filtered", tid=env, filter={"modelVersion": 1})
    call("deploy_filtered orphans", "deploy_filtered", tid=env, filter={"isOrphan": True})
    call("deploy_filtered unknown", "deploy_filtered", tid=env, filter={"noSuch": True})
    call("deploy_filtered none", "deploy_filtered", tid=env, filter={"agent": {"eq": ["nobody"]}})
    call("halt", "halt_environment", tid=env)
    call("halt again", "halt_environment", tid=env)
    call("get_agents halted", "get_agents", tid=env, filter={"name": ["agentr1"]})
    call("environment_get halted", "environment_get", id=env)
    call("agent pause halted", "agent_action", tid=env, name="agentr1", action="pause")
    call("agent keep_paused", "agent_action", tid=env, name="agentr1", action="keep_paused_on_resume")
    call("deploy halted", "deploy", tid=env, agents=["agentr1"])
    call("get_scheduler_status halted", "get_scheduler_status", tid=env)
    call("resume", "resume_environment", tid=env)
    call("resume again", "resume_environment", tid=env)
    call("agent unpause after", "agent_action", tid=env, name="agentr1", action="unpause")


def dry_runs(call, env):
    """Dry runs, of both versions of the API."""
    call("list_dryruns none", "list_dryruns", tid=env, version=2)
    call("dryrun_trigger unknown", "dryrun_trigger", tid=env, version=77)
    run = call("dryrun_trigger", "dryrun_trigger", tid=env, version=2)["data"]
    call.until(lambda body: body["data"]["summary"]["todo"] == 0, "get_dryrun_diff", tid=env, version=2, report_id=run)
    call("list_dryruns", "list_dryruns", tid=env, version=2)
    call("list_dryruns unknown", "list_dryruns", tid=env, version=77)
    call("get_dryrun_diff", "get_dryrun_diff", tid=env, version=2, report_id=run)
    call("get_dryrun_diff unknown", "get_dryrun_diff", tid=env, version=2, report_id=uuid.uuid4())
    call("dryrun_list", "dryrun_list", tid=env)
    call("dryrun_list version", "dryrun_list", tid=env, version=1)
    call("dryrun_list unknown", "dryrun_list", tid=env, version=77)
    call("dryrun_report", "dryrun_report", tid=env, id=run)
    call("dryrun_report unknown", "dryrun_report", tid=env, id=uuid.uuid4())
    call("dryrun_request", "dryrun_request", tid=env, id=2)
    call("dryrun_request unknown", "dryrun_request", tid=env, id=77)
    call("dryrun_filtered", "dryrun_filtered", tid=env, filter={"agent": {"eq": ["agentr1"]}})
    call("dryrun_filtered version", "dryrun_filtered", tid=env, filter={"modelVersion": 2})
    call("dryrun_filtered orphans", "dryrun_filtered", tid=env, filter={"isOrphan": True})
    call("dryrun_filtered none", "dryrun_filtered", tid=env, filter={"agent": {"eq": ["nobody"]}})


def facts(call, env):
    """Facts and parameters."""
    fact = {"tid": env, "source": "fact", "resource_id": rid("r1")}
    made = call("set_fact", "set_fact", name="size", value="5", **fact)["data"]
    call("set_fact lasting", "set_fact", name="lasting", value="5", expires=False, metadata={"a": "b"}, **fact)
    call("get_facts", "get_facts", tid=env, rid=rid("r1"))
    call("get_facts unknown", "get_facts", tid=env, rid=rid("x"))
    call("get_fact", "get_fact", tid=env, rid=rid("r1"), id=made["id"])
    call("get_fact unknown", "get_fact", tid=env, rid=rid("r1"), id=uuid.uuid4())
    call("get_all_facts", "get_all_facts", tid=env)
    call("get_all_facts page", "get_all_facts", tid=env, limit=1, sort="name.desc")
    call("get_all_facts filtered", "get_all_facts", tid=env, filter={"expires": [False]})
    call("get_all_facts named", "get_all_facts", tid=env, filter={"name": ["SIZ"], "resource_id": ["r1"]})
    call("set_parameter", "set_parameter", tid=env, name="region", source="user", value="eu", metadata={"who": "me"})
    call("set_param", "set_param", tid=env, id="zone", source="user", value="a")
    call("set_param fact", "set_param", tid=env, id="color", source="fact", value="red", resource_id=rid("r1"))
    call("set_param expiring", "set_param", tid=env, id="bad", source="user", value="a", expires=True)
    call("get_parameters", "get_parameters", tid=env)
    call("get_parameters page", "get_parameters", tid=env, limit=1, sort="name.desc")
    call("get_parameters filtered", "get_parameters", tid=env, filter={"source": ["user"], "name": ["zo"]})
    call("get_parameters updated", "get_parameters", tid=env, filter={"updated": ["ge:2020-01-01+00:00:00"]}, sort="updated.asc")
    call("get_param", "get_param", tid=env, id="zone")
    call("get_param fact", "get_param", tid=env, id="color", resource_id=rid("r1"))
    call("get_param unknown", "get_param", tid=env, id="nothing")
    call("list_params", "list_params", tid=env)
    call("list_params query", "list_params", tid=env, query={"who": "me"})
    many = [
        {"id": "many1", "source": "user", "value": "1", "resource_id": "", "metadata": {}},
        {"id": "many2", "source": "fact", "value": "2", "resource_id": rid("r2"), "metadata": {}, "expires": False},
    ]
    call("set_parameters", "set_parameters", tid=env, parameters=many)
    call("get_param many", "get_param", tid=env, id="many2", resource_id=rid("r2"))
    call("delete_param", "delete_param", tid=env, id="zone")
    call("delete_param unknown", "delete_param", tid=env, id="zone")


def discovery(call, env):
    """Resources that handlers find; here the client says so."""
    found = {"discovery_resource_id": rid("r1"), "values": {"speed": 10}}
    call("discovered_resource_create", "discovered_resource_create", tid=env, discovered_resource_id=rid("f1"), **found)
    batch = [{"discovered_resource_id": rid(name), **found} for name in ("f2", "f3")]
    call("discovered_resource_create_batch", "discovered_resource_create_batch", tid=env, discovered_resources=batch)
    call("discovered_resources_get", "discovered_resources_get", tid=env, discovered_resource_id=rid("f1"))
    call("discovered_resources_get unknown", "discovered_resources_get", tid=env, discovered_resource_id=rid("x"))
    call("discovered_resources_get_batch", "discovered_resources_get_batch", tid=env)
    call("discovered page", "discovered_resources_get_batch", tid=env, limit=2)
    call("discovered down", "discovered_resources_get_batch", tid=env, limit=2, sort="discovered_resource_id.desc")
    call("discovered filtered", "discovered_resources_get_batch", tid=env, filter={"managed": [False], "agent": ["f2"]})
    call("discovered_resource_delete", "discovered_resource_delete", tid=env, discovered_resource_id=rid("f1"))
    call("discovered_resource_delete again", "discovered_resource_delete", tid=env, discovered_resource_id=rid("f1"))
    gone = [rid("f2"), rid("x")]
    call("discovered_resource_delete_batch", "discovered_resource_delete_batch", tid=env, discovered_resource_ids=gone)


def compiles(call, env):
    """Compiles of an environment without a repository fail, and there is a notification."""
    # Deleting a parameter has asked for a compile already.
    is_idle = lambda body: body == {"queue": []}
    call.until(is_idle, "get_compile_queue", tid=env)
    call("is_compiling", "is_compiling", id=env)
    asked = call("notify_change", "notify_change", id=env, metadata={"type": "cli", "message": "by hand"})
    # Of an environment without a repository: the one that deleting a parameter has asked for.
    reports = call.until(lambda body: body["data"], "get_compile_reports", tid=env)
    asked = asked.get("compile_id") or reports["data"][0]["id"]
    call.until(is_idle, "get_compile_queue", tid=env)
    call("get_compile_queue", "get_compile_queue", tid=env)
    call("get_compile_reports", "get_compile_reports", tid=env, limit=1)
    call("get_compile_reports failed", "get_compile_reports", tid=env, limit=1, filter={"success": [False], "completed": [True]})
    call("get_compile_reports range", "get_compile_reports", tid=env, filter={"requested": ["lt:2020-01-01+00:00:00"]})
    call("get_compile_reports up", "get_compile_reports", tid=env, limit=1, sort="requested.asc")
    call("get_compile_reports bad", "get_compile_reports", tid=env, filter={"no_such": [True]})
    call("compile_details", "compile_details", tid=env, id=asked)
    call("compile_details unknown", "compile_details", tid=env, id=uuid.uuid4())
    call("get_compile_data", "get_compile_data", id=asked)
    call("get_reports", "get_reports", tid=env, limit=1)
    call("get_report", "get_report", id=asked)
    call("get_report unknown", "get_report", id=uuid.uuid4())
    notes = call("list_notifications", "list_notifications", tid=env, limit=1)["data"]
    call("list_notifications filtered", "list_notifications", tid=env, limit=1, filter={"cleared": [False], "read": [False]})
    call("list_notifications title", "list_notifications", tid=env, filter={"title": ["no such title"]})
    call("list_notifications bad", "list_notifications", tid=env, filter={"no_such": ["x"]})
    note = notes[0]["id"] if notes else uuid.uuid4()
    call("get_notification", "get_notification", tid=env, notification_id=note)
    call("get_notification unknown", "get_notification", tid=env, notification_id=uuid.uuid4())
    call("update_notification", "update_notification", tid=env, notification_id=note, read=True)
    call("update_notification cleared", "update_notification", tid=env, notification_id=note, cleared=True)
    call("update_notification nothing", "update_notification", tid=env, notification_id=note)
    call("update_notification unknown", "update_notification", tid=env, notification_id=uuid.uuid4(), read=True)
    call("set_setting server_compile", "set_setting", tid=env, id="server_compile", value=False)
    call("notify_change off", "notify_change", id=env)
    call("notify_change_get off", "notify_change_get", id=env)


def metrics(call, env):
    """Metrics of a window without any."""
    now = datetime.datetime.now(datetime.timezone.utc)
    ask = {"tid": env, "start_interval": now - datetime.timedelta(minutes=10), "end_interval": now, "nb_datapoints": 2}
    names = [
        "orchestrator.compile_time",
        "orchestrator.compile_waiting_time",
        "orchestrator.compile_rate",
        "resource.agent_count",
        "resource.resource_count",
    ]
    past = datetime.timedelta(days=300)
    window = {"start_interval": now - past - datetime.timedelta(hours=2), "end_interval": now - past}
    call("get_environment_metrics none", "get_environment_metrics", metrics=names, **{**ask, **window})
    rounded = {**ask, **window, "round_timestamps": True}
    call("get_environment_metrics rounded", "get_environment_metrics", metrics=names, **rounded)
    call("get_environment_metrics unknown", "get_environment_metrics", metrics=["no.such"], **ask)
    call("get_environment_metrics no names", "get_environment_metrics", metrics=[], **ask)
    call("get_environment_metrics no points", "get_environment_metrics", metrics=names, **{**ask, "nb_datapoints": 0})
    call("get_environment_metrics too many", "get_environment_metrics", metrics=names, **{**ask, "nb_datapoints": 100})
    backwards = {**ask, "start_interval": now, "end_interval": now - past}
    call("get_environment_metrics backwards", "get_environment_metrics", metrics=names, **backwards)


def server(call, env):
    """What is about the server."""
    call("get_server_status", "get_server_status")
    call("health", "health")
    call("is_bool_feature_enabled unknown", "is_bool_feature_enabled", slice_name="no", feature_name="such")
    call("get_current_user", "get_current_user")
    partial = {"resources": [], "module_version_info": modules(), "resource_sets": {}}
    call("put_partial", "put_partial", tid=env, **partial)


def ends(call, project, env):
    """Clearing and deleting."""
    call("set protected", "set_setting", tid=env, id="protected_environment", value=True)
    call("environment_clear protected", "environment_clear", id=env)
    call("clear_environment protected", "clear_environment", id=env)
    call("environment_delete protected", "environment_delete", id=env)
    call("delete protected", "delete_setting", tid=env, id="protected_environment")
    call("environment_clear", "environment_clear", id=env)
    call("environment_get cleared", "environment_get", id=env)
    call("list_desired_state_versions cleared", "list_desired_state_versions", tid=env)
    call("get_parameters cleared", "get_parameters", tid=env)
    call("get_compile_reports cleared", "get_compile_reports", tid=env)
    call("reserve_version cleared", "reserve_version", tid=env)
    call("clear_environment", "clear_environment", id=env)
    call("clear_environment unknown", "clear_environment", id=uuid.uuid4())
    call("environment_delete", "environment_delete", id=env)
    call("environment_delete again", "environment_delete", id=env)
    call("delete_project", "delete_project", id=project)


def run(port, out, token):
    """Calls everything, in an order in which later calls find what earlier ones made."""
    from inmanta import config
    from inmanta.protocol.endpoints import SyncClient

    config.Config.load_config()
    config.Config.set("client_rest_transport", "port", str(port))
    config.Config.set("client_rest_transport", "host", "127.0.0.1")
    if token:
        config.Config.set("client_rest_transport", "token", token)
    call = Recorder(SyncClient("client"))
    try:
        project = projects(call)
        env = environments(call, project)
        settings(call, env)
        files(call)
        versions(call, env)
        resources(call, env)
        dry_runs(call, env)
        deployments(call, env)
        facts(call, env)
        discovery(call, env)
        compiles(call, env)
        metrics(call, env)
        server(call, env)
        ends(call, project, env)
    finally:
        lines = (f"{json.dumps(label)}: {json.dumps(made, sort_keys=True)}" for label, made in call.calls.items())
        with open(out, "w", encoding="utf-8") as file:
            file.write("{\n" + ",\n".join(lines) + "\n}\n")


def asked(link):
    """Path and arguments of a link, without where its page begins, which is the server's, and without defaults."""
    path, _, query = link.partition("?")
    own = ("start=", "end=", "first_id=", "last_id=", "before=", "sort=", "deploy_summary=")
    kept = (part for part in query.split("&") if not part.startswith(own))
    return f"{path}?{'&'.join(sorted(kept))}"


def differences(path, there, here):
    """How an answer differs from that of the reference. What we have beyond it is no difference."""
    if path.startswith(".links.") and isinstance(there, str) and isinstance(here, str):
        if asked(there) != asked(here):
            yield f"{path} is {asked(here)}, not {asked(there)}"
    elif isinstance(there, dict) and isinstance(here, dict):
        for name, value in there.items():
            if name not in here:
                yield f"{path}.{name} is missing"
            else:
                yield from differences(f"{path}.{name}", value, here[name])
    elif isinstance(there, list) and isinstance(here, list):
        if len(there) != len(here):
            yield f"{path} has {len(here)} elements, not {len(there)}"
        for place, (value, other) in enumerate(zip(there, here)):
            yield from differences(f"{path}[{place}]", value, other)
    elif there != here:
        yield f"{path} is {json.dumps(here)[:200]}, not {json.dumps(there)[:200]}"


def compare(first, second):
    """Prints the differences, one a line: `call: what`."""
    with open(first, encoding="utf-8") as file:
        there = json.load(file)
    with open(second, encoding="utf-8") as file:
        here = json.load(file)
    for label, made in there.items():
        if label not in here:
            print(f"{label}: was not called")
        elif made["code"] != here[label]["code"]:
            print(f"{label}: code is {here[label]['code']}, not {made['code']}")
        else:
            for text in differences("", made["body"], here[label]["body"]):
                print(f"{label}: {text.removeprefix('.')}")


def methods():
    """Prints the methods of the reference's core."""
    from inmanta.protocol import common, methods, methods_v2  # the latter two for what they declare

    assert methods and methods_v2
    for name, declared in sorted(common.MethodProperties.methods.items()):
        for one in declared:
            path = f"/{one._api_prefix}/v{one._api_version}{one._path._path}"
            print(name, one._operation, path.rstrip("/"))


if __name__ == "__main__":
    if sys.argv[1] == "methods":
        methods()
    elif sys.argv[1] == "run":
        run(int(sys.argv[2]), sys.argv[3], sys.argv[4] if len(sys.argv) > 4 else "")
    else:
        compare(sys.argv[2], sys.argv[3])
