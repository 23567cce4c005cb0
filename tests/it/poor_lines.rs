//! Agents on other machines behind lines that are slow, and that stall.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::json;

use crate::external::{World, statuses};
use crate::harness::wait_until;
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
