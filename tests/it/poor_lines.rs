//! Agents on other machines behind lines that are slow, that stall, and that are encrypted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::external::{Agent, TOKEN, World, statuses};
use crate::harness::{files, wait_until};
use crate::serve::Served;

const EXTERNAL: &str = "agent_map: {localhost: 'external:'}, autostart_agent_repair_interval: 0";

/// A line with 100 ms each way and 50 kB a second that stalls for longer than a heartbeat now and then, as one does that loses
/// packets and sends them again. What is sent arrives in the end, and in its order: that is TCP's part.
fn poor_line(server: &str) -> String {
    let server = server.trim_start_matches("http://").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(far)) = (client, TcpStream::connect(&server)) else {
                continue;
            };
            let (back, there) = (client.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || carry(client, there));
            std::thread::spawn(move || carry(far, back));
        }
    });
    url
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    const STALL_EVERY: usize = 25;
    let mut bytes = [0; 512];
    let mut n_sent = 0;
    std::thread::sleep(Duration::from_millis(100));
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        n_sent += 1;
        let is_lost = n_sent % STALL_EVERY == 0;
        let pause = if is_lost { 2500 } else { 10 };
        std::thread::sleep(Duration::from_millis(pause));
        if to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

fn n_deployed(served: &Served) -> usize {
    let all = statuses(served);
    let all = all.as_object().unwrap().values();
    all.filter(|status| **status == json!("deployed")).count()
}

#[test]
fn an_agent_behind_a_slow_line_with_stalls_runs_all_and_nothing_twice() {
    let mut model = "import exec\nroot = std::get_env(\"ROOT\")\nhost = std::Host(name=\"localhost\", os=std::linux)\n".to_owned();
    const N: usize = 30;
    for n in 0..N {
        model.push_str(&format!(
            "exec::Run(host=host, command=\"/bin/sh -c 'echo {n} >> {{{{root}}}}/runs'\", send_event=false)\n"
        ));
    }
    let world = World::new(&model, EXTERNAL);
    let served = world.serve();
    let _agent = world.agent(&poor_line(&served.api), "localhost", "agent");
    wait_until("all is deployed", || n_deployed(&served) == N);
    let runs = world.host.read("runs");
    let mut runs: Vec<usize> = runs.lines().map(|line| line.parse().unwrap()).collect();
    runs.sort_unstable();
    assert_eq!(runs, (0..N).collect::<Vec<_>>());
}

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
        let openssl = |arguments: &str| {
            let mut command = Command::new("openssl");
            command.args(arguments.split(' ')).current_dir(folder);
            let output = crate::harness::finish(command);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{arguments}: {said}");
        };
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        openssl(&format!(
            "req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority -days 2"
        ));
        openssl(&format!(
            "req {key} -keyout key.pem -out request.pem -subj /CN=server -addext subjectAltName=IP:127.0.0.1"
        ));
        openssl(
            "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -copy_extensions copy -out cert.pem -days 2",
        );
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
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
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
