//! Servers behind TLS: which certificates agents and commands take.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::external::{Agent, TOKEN, World};
use crate::harness::{files, wait_until};

const EXTERNAL: &str = "agent_map: {localhost: 'external:'}, autostart_agent_repair_interval: 0";

/// Ends TLS before a server, as a reverse proxy does.
const PROXY: &str = r#"
import asyncio, ssl, sys

async def carry(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()

async def main(folder, port):
    async def serve(reader, writer):
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(carry(reader, far_writer), carry(far_reader, writer))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder + "/cert.pem", folder + "/key.pem")
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"#;

const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

fn openssl(folder: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    command.args(arguments.split(' ')).current_dir(folder);
    let output = crate::harness::finish(command);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {printed}");
}

struct Proxy {
    child: Child,
    url: String,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Proxy {
    /// With a certificate in `folder` of the authority `ca.pem` there.
    fn start(folder: &Path, server: &str) -> Self {
        openssl(
            folder,
            &format!("req -x509 {NEW_KEY} -keyout ca.key -out ca.pem -subj /CN=authority -days 2"),
        );
        openssl(
            folder,
            &format!(
                "req {NEW_KEY} -keyout key.pem -out request.pem -subj /CN=server -addext subjectAltName=IP:127.0.0.1"
            ),
        );
        openssl(
            folder,
            "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -copy_extensions copy -out cert.pem -days 2",
        );
        Self::run(folder, server)
    }

    /// With the certificate `cert.pem` and the key `key.pem` in `folder`.
    fn run(folder: &Path, server: &str) -> Self {
        let port = server.rsplit(':').next().unwrap();
        let mut child = Command::new("python3")
            .args(["-c", PROXY])
            .arg(folder)
            .arg(port)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        printed.read_line(&mut line).unwrap();
        let url = format!("https://127.0.0.1:{}", line.trim());
        Self { child, url }
    }
}

/// Input: a server whose certificate is of an authority that the agent does not know (docs/reference/security.md § 3.36). Answer: it gets no token, and the agent says why.
#[test]
fn an_agent_speaks_over_tls_with_a_server_whose_certificate_it_knows() {
    let world = World::new(&files(&[("a", "over tls")]), EXTERNAL);
    let served = world.serve();
    let folder = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(folder.path(), &served.api);
    let stranger = world.agent(&proxy.url, "localhost", "stranger");
    stranger.logs("certificate");
    drop(stranger);
    assert!(!world.host.file("a").exists());
    let authority = format!("SSL_CERT_FILE={}", folder.path().join("ca.pem").display());
    let data = world.dir.path().join("agent");
    let agent = Agent::start_in(&["env", &authority], &proxy.url, "localhost", TOKEN, &data);
    agent.logs("connected to https://");
    wait_until("it is deployed", || world.host.read("a") == "over tls\n");
}

/// Given: a server whose certificate vouches for itself, as `openssl req -x509` makes it and the reference takes it. Expected: a
/// command takes it where the file has that very certificate, and another of the same names is refused.
#[test]
fn a_command_takes_a_server_whose_own_certificate_it_is_given() {
    let world = World::new(&files(&[("a", "over tls")]), "");
    let served = world.serve();
    let folder = tempfile::tempdir().unwrap();
    let own = |key: &str, certificate: &str, names: &str| {
        openssl(
            folder.path(),
            &format!(
                "req -x509 {NEW_KEY} -keyout {key} -out {certificate} -subj /CN=server -days 2 -addext subjectAltName={names}"
            ),
        );
    };
    own("key.pem", "cert.pem", "IP:127.0.0.1");
    own("other.key", "other.pem", "IP:127.0.0.1");
    let proxy = Proxy::run(folder.path(), &served.api);
    let port = proxy.url.rsplit(':').next().unwrap().to_owned();
    let explain = |address: &str, file: &str| {
        let mut command = crate::harness::steward();
        command.args(["explain", "/a", "--ssl", "--server-port", &port]);
        command.args(["--server-address", address, "--ssl-ca-cert"]);
        command.arg(folder.path().join(file));
        let output = crate::harness::finish(command);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), printed)
    };
    wait_until("it is deployed", || world.host.read("a") == "over tls\n");
    let (is_taken, printed) = explain("127.0.0.1", "cert.pem");
    assert!(is_taken, "{printed}");
    let (is_taken, printed) = explain("127.0.0.1", "other.pem");
    assert!(!is_taken && printed.contains("--ssl-ca-cert"), "{printed}");
    let (is_taken, printed) = explain("localhost", "cert.pem");
    assert!(!is_taken && printed.contains("not valid for"), "{printed}");
}
