//! Agents over ssh: a real sshd on this machine, whose sessions have a temporary folder of their own.

use std::fs;

use serde_json::json;

use crate::external::{World, statuses};
use crate::harness::{files, wait_until};
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
    /// `None`: there is no sshd.
    pub fn new(main: &str, known_hosts: &str) -> Option<Self> {
        let sshd = Sshd::start()?;
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
        let settings = format!(
            "agent_map: {{localhost: 'ssh://{}@127.0.0.1:{}'}}, deploy_retry_backoff: 1",
            sshd.user, sshd.port
        );
        let mut world = World::new(main, &settings);
        world.more_of_agents(&format!(", ssh_config: {}", config.display()));
        Some(Self {
            sshd,
            folder,
            world,
        })
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
    let Some(far) = Far::new(&files(&[("a", "over ssh")]), "known_hosts") else {
        return;
    };
    let mut served = far.world.serve();
    wait_until("it is deployed", || is_deployed(&served));
    assert_eq!(far.world.host.read("a"), "over ssh\n", "{}", far.sshd.log());
    assert_eq!(far.left(), 1);
    // The end of the server is the end of the line.
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    wait_until("the other side has cleaned up", || far.left() == 0);
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
