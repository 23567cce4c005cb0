//! Agents over ssh: a real sshd on this machine, whose sessions have a temporary folder of their own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::external::{World, statuses};
use crate::harness::{files, request, segment, skip, wait_until};
use crate::serve::Served;
use crate::ssh::Sshd;

/// A server whose agent `localhost` is behind an sshd.
pub struct Far {
    sshd: Sshd,
    /// Where the other side makes its temporary folders.
    pub folder: tempfile::TempDir,
    pub world: World,
}

impl Far {
    /// `None`: there is no sshd. The settings say where the agent is.
    pub fn new(main: &str, known_hosts: &str) -> Option<Self> {
        let sshd = Sshd::start()?;
        let settings = format!(
            "agent_map: {{localhost: 'ssh://{}@127.0.0.1:{}'}}, deploy_retry_backoff: 1",
            sshd.user, sshd.port
        );
        Some(Self::behind(sshd, main, &settings, known_hosts))
    }

    /// An sshd, and what the settings say of it.
    fn behind(sshd: Sshd, main: &str, settings: &str, known_hosts: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| sshd.home.path().join(".ssh").join(name);
        // A session sees what its key says. Nothing of it has to be permitted by the server's configuration.
        let config = sshd.home.path().join("ssh_config");
        let text = format!(
            "Host *\n  IdentityFile {}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n",
            at("key").display(),
            at(known_hosts).display(),
        );
        fs::write(&config, text).unwrap();
        let key = fs::read_to_string(at("key.pub")).unwrap();
        let wrapped = format!(
            "command=\"TMPDIR={} exec sh -c \\\"$SSH_ORIGINAL_COMMAND\\\"\" {key}",
            folder.path().display()
        );
        fs::write(at("key.pub"), wrapped).unwrap();
        let mut world = World::new(main, settings);
        world.more_of_agents(&format!(", ssh_config: {}", config.display()));
        Self {
            sshd,
            folder,
            world,
        }
    }

    /// Gives the sessions to come variables.
    pub fn sessions_have(&self, variables: &[String]) {
        let key = self.sshd.home.path().join(".ssh/key.pub");
        let before = fs::read_to_string(&key).unwrap();
        let with = format!("command=\"{} TMPDIR=", variables.join(" "));
        fs::write(&key, before.replacen("command=\"TMPDIR=", &with, 1)).unwrap();
    }

    /// The folders that were made on the other side and are still there.
    pub fn left(&self) -> usize {
        fs::read_dir(self.folder.path()).unwrap().count()
    }
}

fn is_deployed(served: &Served) -> bool {
    let all = statuses(served);
    let mut all = all.as_object().unwrap().values();
    all.len() > 0 && all.all(|status| *status == json!("deployed"))
}

#[test]
fn a_resource_is_deployed_over_ssh_and_nothing_is_left_behind() {
    let main = format!(
        "{}import exec\nexec::Run(host=host, command=\"touch {{{{root}}}}/made\")\n",
        files(&[("a", "over ssh")])
    );
    let Some(far) = Far::new(&main, "known_hosts") else {
        return;
    };
    let mut served = far.world.serve();
    wait_until("it is deployed", || is_deployed(&served));
    assert_eq!(far.world.host.read("a"), "over ssh\n", "{}", far.sshd.log());
    assert_eq!(far.left(), 1);
    // What handlers make has the modes that the session of the user gives, not those of our own folder there.
    let mode = fs::metadata(far.world.host.file("made"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o644, "{mode:o}");
    // The end of the server is the end of the line.
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    wait_until("the other side has cleaned up", || far.left() == 0);
}

/// Given: a machine with `gzip` and one without it. Expected: the program goes to the first one compressed, to the second one as it is,
/// and runs on both.
#[test]
fn the_program_goes_compressed_where_the_machine_can_unpack_it() {
    let needed = "sh uname mktemp chmod rm head sha256sum cut sleep cat";
    for has_gzip in [true, false] {
        let Some(far) = Far::new(&files(&[("a", "packed")]), "known_hosts") else {
            return;
        };
        let tools = tempfile::tempdir().unwrap();
        for tool in needed.split(' ') {
            let from = Path::new("/bin").join(tool);
            let from = if from.exists() {
                from
            } else {
                Path::new("/usr/bin").join(tool)
            };
            symlink(from, tools.path().join(tool)).unwrap();
        }
        let used = tools.path().join("used");
        if has_gzip {
            let gzip = tools.path().join("gzip");
            let text = format!(
                "#!/bin/sh\n: > {}\nPATH=/bin:/usr/bin exec gzip \"$@\"\n",
                used.display()
            );
            fs::write(&gzip, text).unwrap();
            fs::set_permissions(&gzip, fs::Permissions::from_mode(0o755)).unwrap();
        }
        far.sessions_have(&[format!("PATH={}", tools.path().display())]);
        let served = far.world.serve();
        wait_until("it is deployed", || is_deployed(&served));
        assert_eq!(far.world.host.read("a"), "packed\n", "{}", far.sshd.log());
        assert_eq!(used.exists(), has_gzip);
    }
}

/// Given: an account whose shell prints a greeting without a line break at its end before it runs anything. Expected: what runs
/// there is found behind it.
#[test]
fn a_greeting_without_an_end_does_not_hide_that_the_other_side_is_there() {
    let Some(far) = Far::new(&files(&[("a", "over ssh")]), "known_hosts") else {
        return;
    };
    far.sessions_have(&["printf Welcome;".to_owned()]);
    let served = far.world.serve();
    wait_until("it is deployed", || is_deployed(&served));
    assert_eq!(far.world.host.read("a"), "over ssh\n", "{}", far.sshd.log());
}

/// Given: an account whose shell runs something that reads its input at a login, as a menu or a question in a start file does.
/// Expected: it does not swallow a part of the program, which would never arrive.
#[test]
fn what_a_shell_reads_at_a_login_is_not_the_program() {
    let Some(far) = Far::new(&files(&[("a", "over ssh")]), "known_hosts") else {
        return;
    };
    far.sessions_have(&["timeout 1 head -n 1 > /dev/null;".to_owned()]);
    let served = far.world.serve();
    wait_until("it is deployed", || is_deployed(&served));
    assert_eq!(far.world.host.read("a"), "over ssh\n", "{}", far.sshd.log());
}

/// Input: a machine whose host key is not the known one (docs/reference/security.md § 3.19). Answer: nothing is sent to it, and the resource says why.
#[test]
fn a_machine_with_another_host_key_gets_nothing() {
    let Some(far) = Far::new(&files(&[("a", "x")]), "no_known_hosts") else {
        return;
    };
    let served = far.world.serve();
    let environment = served.environment("prod");
    wait_until("it says why", || {
        let actions = served.get(&environment, "/api/v2/resource_actions");
        actions.to_string().contains("Host key verification failed")
    });
    assert!(!far.world.host.file("a").exists());
    assert_eq!(far.left(), 0);
}

/// Given: several resources of a machine that cannot be reached. Expected: one of them waits for the attempt; the others are
/// refused at once, in its words, so that a round of a thousand does not take hours.
#[test]
fn a_machine_that_cannot_be_reached_is_left_alone_for_a_while() {
    let main = files(&[("a", "x"), ("b", "x"), ("c", "x")]);
    let Some(far) = Far::new(&main, "no_known_hosts") else {
        return;
    };
    let served = far.world.serve();
    let environment = served.environment("prod");
    let said = || {
        let actions = served.get(&environment, "/api/v2/resource_actions?action=deploy");
        let actions = actions["data"].as_array().unwrap();
        let all = actions.iter().map(|action| action["messages"].to_string());
        all.filter(|said| said.contains("Host key verification failed"))
            .collect::<Vec<_>>()
    };
    wait_until("all of them say why", || said().len() >= 3);
    let said = said();
    let refused = said.iter().filter(|one| one.contains("is tried again in"));
    assert!(refused.count() >= 2, "{said:#?}");
}

/// Given: an account whose shell is /bin/false, as those of services have it. Expected: the resource says that, though neither ssh
/// nor the account says a word.
#[test]
fn an_account_without_a_shell_is_called_that() {
    let Some(far) = Far::new(&files(&[("a", "x")]), "known_hosts") else {
        return;
    };
    let key = far.sshd.home.path().join(".ssh/key.pub");
    let wrapped = fs::read_to_string(&key).unwrap();
    let plain = &wrapped[wrapped.find("ssh-ed25519").unwrap()..];
    fs::write(&key, format!("command=\"/bin/false\" {plain}")).unwrap();
    let served = far.world.serve();
    let environment = served.environment("prod");
    wait_until("it says why", || {
        let actions = served.get(&environment, "/api/v2/resource_actions");
        actions
            .to_string()
            .contains("the account needs a shell that runs commands")
    });
}

/// A model with one file on a host that is to be reached by ssh.
fn remote(user: &str, port: u16) -> String {
    let model = files(&[("a", "over ssh")]);
    let host = "std::Host(name=\"localhost\", os=std::linux";
    let address = format!(
        "{host}, ip=\"127.0.0.1\", remote_agent=true, remote_user=\"{user}\", remote_port={port}"
    );
    model.replacen(host, &address, 1)
}

/// Input: a model that makes an option of ssh of a user's name (docs/reference/security.md § 3.44). Answer: the commit does not compile, and says which agent has no place.
#[test]
fn a_model_alone_says_that_a_host_is_reached_over_ssh() {
    let Some(sshd) = Sshd::start() else {
        return;
    };
    let main = remote(&sshd.user, sshd.port);
    let far = Far::behind(sshd, &main, "deploy_retry_backoff: 1", "known_hosts");
    let served = far.world.serve();
    wait_until("it is deployed", || is_deployed(&served));
    assert_eq!(far.world.host.read("a"), "over ssh\n", "{}", far.sshd.log());
    assert_eq!(far.left(), 1, "an executor is on the other side");
    // A place that is none would mean this machine, where its resources do not belong.
    let bad = remote("-oProxyCommand=id", far.sshd.port).replace("over ssh", "here");
    far.world.repo.write("main.cf", &bad);
    far.world.repo.commit("a place that is none");
    let environment = served.environment("prod");
    wait_until("it says what is wrong", || {
        let reports = served.get(&environment, "/api/v2/compilereport");
        let id = reports["data"][0]["id"].as_str().unwrap().to_owned();
        let report = served.get(&environment, &format!("/api/v2/compilereport/{id}"));
        report
            .to_string()
            .contains("std::AgentConfig of agent `localhost`")
    });
    assert_eq!(far.world.host.read("a"), "over ssh\n");
    // What the settings say of an agent comes first.
    let post = |path: &str, body: &Value| {
        let url = format!("{}{path}", served.api);
        request("POST", &url, Some(&environment), Some(body)).0
    };
    let local = json!({"value": {"localhost": "local:"}});
    assert_eq!(post("/api/v2/environment_settings/agent_map", &local), 200);
    fs::write(far.world.host.file("a"), "changed").unwrap();
    assert_eq!(post("/api/v1/deploy", &json!({})), 200);
    wait_until("it is repaired", || {
        far.world.host.read("a") == "over ssh\n"
    });
}

/// Given: the first version of a model, not released, with a host behind ssh and an agent that nobody has started. Expected: a
/// dry run compares where that version says that its agents are, and not on the machine of the server.
#[test]
fn a_dry_run_of_a_version_that_is_not_released_is_made_where_its_agents_are() {
    let Some(sshd) = Sshd::start() else {
        return;
    };
    let more = "import exec\n\
        exec::Run(host=host, command=\"touch {{root}}/made\", unless=\"readlink /proc/$PPID/exe > {{root}}/where; false\")\n\
        away = std::Host(name=\"away\", os=std::linux)\n\
        exec::Run(host=away, command=\"touch {{root}}/made\", unless=\"sh -c 'touch {{root}}/here; false'\")\n";
    let main = remote(&sshd.user, sshd.port) + more;
    let settings = "auto_deploy: false, agent_map: {away: 'external:'}";
    let far = Far::behind(sshd, &main, settings, "known_hosts");
    let served = far.world.serve();
    let environment = served.environment("prod");
    wait_until("there is a version", || {
        let versions = served.get(&environment, "/api/v2/desiredstate");
        versions["data"]
            .as_array()
            .is_some_and(|all| all.len() == 1)
    });
    let url = format!("{}/api/v2/dryrun/1", served.api);
    let (status, body) = request("POST", &url, Some(&environment), None);
    assert_eq!(status, 200, "{body}");
    wait_until("it is done", || {
        served.get(&environment, "/api/v2/dryrun/1")["data"][0]["todo"] == 0
    });
    let path = format!("/api/v2/dryrun/1/{}", body["data"].as_str().unwrap());
    let diff = served.get(&environment, &path)["data"]["diff"].clone();
    let of_agent = |agent: &str| {
        let mut all = diff.as_array().unwrap().iter();
        let found = all.find(|one| {
            let id = one["resource_id"].as_str().unwrap();
            id.starts_with(&format!("exec::Run[{agent},"))
        });
        found.unwrap()["status"].clone()
    };
    assert_eq!(of_agent("away"), "agent_down", "{diff}");
    assert_eq!(of_agent("localhost"), "modified", "{diff}");
    let there = far.world.host.read("where");
    assert!(
        there.starts_with(far.folder.path().to_str().unwrap()),
        "{there:?} {}",
        far.sshd.log()
    );
    for never in ["here", "made", "a"] {
        assert!(!far.world.host.file(never).exists(), "{never}");
    }
}

/// Given: an agent behind ssh, which is on the machine of the server from then on. Expected: what the server runs on the other
/// machine ends, and leaves nothing there, though the server goes on.
#[test]
fn a_machine_that_no_agent_is_on_any_more_is_left() {
    let Some(mut far) = Far::new(&files(&[("a", "over ssh")]), "known_hosts") else {
        return;
    };
    far.world.more("executor: {keep: 1s}\n");
    let served = far.world.serve();
    wait_until("it is deployed", || is_deployed(&served));
    assert_eq!(far.left(), 1, "an executor is on the other side");
    let environment = served.environment("prod");
    let post = |path: &str, body: &Value| {
        let url = format!("{}{path}", served.api);
        assert_eq!(request("POST", &url, Some(&environment), Some(body)).0, 200);
    };
    let here = json!({"value": {"localhost": "local:"}});
    wait_until("the other side has cleaned up", || {
        // Whatever is set, the places of agents are looked at again.
        post("/api/v2/environment_settings/agent_map", &here);
        far.left() == 0
    });
    fs::write(far.world.host.file("a"), "changed").unwrap();
    post("/api/v1/deploy", &json!({}));
    wait_until("it is repaired here", || {
        far.world.host.read("a") == "over ssh\n"
    });
    assert_eq!(far.left(), 0);
}

/// Given: two machines, and one connection at once. Expected: each of them gets its turn, first and at a repair, without waiting
/// for `executor.keep`; one that waits for a machine at work says so.
#[test]
fn machines_take_turns_at_the_connections_there_are() {
    let Some(sshd) = Sshd::start() else {
        return;
    };
    let mut main = String::from("import exec\nimport fs\nroot = std::get_env(\"ROOT\")\n");
    let mut map = Vec::new();
    for name in ["a", "b"] {
        main += &format!(
            "{name} = std::Host(name=\"{name}\", os=std::linux)\n\
             fs::File(host={name}, path=\"{{{{root}}}}/{name}\", content=\"over ssh\\n\")\n"
        );
        map.push(format!(
            "{name}: 'ssh://{}@127.0.0.1:{}?python={name}'",
            sshd.user, sshd.port
        ));
    }
    main += "exec::Run(host=a, command=\"/bin/sh -c 'while test -e {{root}}/held; do touch {{root}}/busy; sleep 0.1; done'\")\n";
    let settings = format!("agent_map: {{{}}}, deploy_retry_backoff: 1", map.join(", "));
    let mut far = Far::behind(sshd, &main, &settings, "known_hosts");
    far.world.more("executor: {connections: 1}\n");
    let served = far.world.serve();
    wait_until("all are deployed", || is_deployed(&served));
    wait_until("one executor is on the other side", || far.left() == 1);
    let environment = served.environment("prod");
    let post = |path: &str, body: &Value| {
        let url = format!("{}{path}", served.api);
        assert_eq!(request("POST", &url, Some(&environment), Some(body)).0, 200);
    };
    fs::write(far.world.host.file("held"), "").unwrap();
    fs::write(far.world.host.file("b"), "changed").unwrap();
    post("/api/v1/deploy", &json!({"agents": ["a"]}));
    wait_until("it is at work", || far.world.host.file("busy").exists());
    post("/api/v1/deploy", &json!({"agents": ["b"]}));
    let id = format!("fs::File[b,path={}]", far.world.host.file("b").display());
    let path = format!("/api/v2/resource/{}/explain", segment(&id));
    wait_until("the other one says what it waits for", || {
        let explained = served.get(&environment, &path).to_string();
        explained.contains("waits for a connection to its machine, of which there are 1 at once")
    });
    fs::remove_file(far.world.host.file("held")).unwrap();
    wait_until("it is repaired", || {
        far.world.host.read("b") == "over ssh\n"
    });
    wait_until("all are deployed", || is_deployed(&served));
    wait_until("those without a turn have left nothing", || far.left() == 1);
}

/// Given: an agent whose place names a Python that its machine does not have. Expected: its resource says which one.
#[test]
fn a_python_that_the_machine_does_not_have_is_named() {
    let Some(sshd) = Sshd::start() else {
        return;
    };
    let settings = format!(
        "agent_map: {{a: 'ssh://{}@127.0.0.1:{}?python=/nowhere/python3'}}, deploy_retry_backoff: 1",
        sshd.user, sshd.port
    );
    let main = "import box\nbox::Box(name=\"a\")\n";
    let model = "entity Box extends std::PurgeableResource:\n    string name\n    string agent = \"a\"\nend\n\
        implement Box using std::none\n";
    let code = "from inmanta.agent.handler import CRUDHandler, provider\n\
        from inmanta.resources import PurgeableResource, resource\n\
        @resource(\"box::Box\", agent=\"agent\", id_attribute=\"name\")\n\
        class Box(PurgeableResource):\n    fields = (\"name\", \"agent\")\n\
        @provider(\"box::Box\", name=\"box\")\n\
        class Handler(CRUDHandler):\n    def read_resource(self, ctx, resource):\n        pass\n";
    let far = Far::behind(sshd, main, &settings, "known_hosts");
    far.world.repo.write_module("box", model, code);
    far.world.repo.commit("a module");
    let served = far.world.serve();
    let environment = served.environment("prod");
    wait_until("the missing Python is named", || {
        let path = format!("/api/v2/resource/{}/explain", segment("box::Box[a,name=a]"));
        let (status, explained) = request(
            "GET",
            &format!("{}{path}", served.api),
            Some(&environment),
            None,
        );
        status == 200 && explained.to_string().contains("/nowhere/python3")
    });
}

/// Given: a line to a machine that is cut in the middle of a run. Expected: the run is `unavailable`, which its history says, and
/// the resource is tried again over a new line.
#[test]
fn a_run_whose_line_is_cut_is_unavailable_and_tried_again() {
    let main = "import exec\nroot = std::get_env(\"ROOT\")\nhost = std::Host(name=\"localhost\", os=std::linux)\n\
        exec::Run(host=host, command=\"/bin/sh -c 'echo run >> {{root}}/runs; test -e {{root}}/go || sleep 600'\")\n";
    let Some(far) = Far::new(main, "known_hosts") else {
        return;
    };
    let served = far.world.serve();
    let n_runs = || {
        let runs = fs::read_to_string(far.world.host.file("runs"));
        runs.unwrap_or_default().lines().count()
    };
    wait_until("it runs", || n_runs() == 1);
    fs::write(far.world.host.file("go"), "").unwrap();
    let sessions = crate::sandbox::below(far.sshd.child.id());
    let mut n_cut = 0;
    for (process, command) in sessions {
        if command.starts_with("sshd") {
            let process = rustix::process::Pid::from_raw(process).unwrap();
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
            n_cut += 1;
        }
    }
    assert!(n_cut > 0, "there is a line");
    wait_until("it is deployed", || is_deployed(&served));
    assert_eq!(n_runs(), 2);
    let environment = served.environment("prod");
    let actions = served.get(&environment, "/api/v2/resource_actions?action=deploy");
    let statuses: Vec<&str> = actions["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|action| action["action"] == "deploy")
        .map(|action| action["status"].as_str().unwrap_or("open"))
        .collect();
    assert_eq!(statuses, ["deployed", "unavailable"], "{actions:#}");
}

/// Given: an account whose temporary folder is mounted without the right to run programs, as hardened machines have it. Expected: another
/// folder is taken, and nothing stays in either.
#[test]
fn where_no_program_may_run_in_the_temporary_folder_another_one_is_taken() {
    let main = files(&[("a", "from elsewhere")]);
    let Some(far) = Far::new(&main, "known_hosts") else {
        return;
    };
    let folder = far.folder.path();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "noexec", "steward-test"])
        .arg(folder)
        .status();
    if !mounted.unwrap().success() {
        skip("file systems can not be mounted (as root, in a container that may)");
        return;
    }
    let _unmount = Unmount(folder);
    let served = far.world.serve();
    wait_until("it is deployed", || is_deployed(&served));
    assert_eq!(far.world.host.read("a"), "from elsewhere\n");
    assert_eq!(far.left(), 0, "nothing is where nothing can run");
}

struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}
