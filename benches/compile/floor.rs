//! The floor: builds the resources of a project of kind `refine` or `service` in memory, hashes them as the export does, and writes
//! the same JSON. No model, no language, nothing that the result does not need: as fast as we can make it.

use std::fmt::Write as _;
use std::io::Write as _;

use md5::{Digest, Md5};

use crate::generate::{BANDWIDTHS, CONNECTIONS_A_CUSTOMER, Kind, SERVICES_A_HOST, n_devices};

struct Resource {
    id: String,
    agent: String,
    attributes: String,
    hash: [u8; 16],
    requires: Vec<u32>,
}

struct Fields<'a> {
    name: &'a str,
    value: &'a str,
    int_value: usize,
    send_event: bool,
}

/// Writes the resources of `n` services to `path`.
pub fn run(kind: Kind, n: usize, path: &str) -> std::io::Result<()> {
    let resources = match kind {
        Kind::Service => connections(n),
        _ => build(n),
    };
    let mut out = std::io::BufWriter::with_capacity(64 << 10, std::fs::File::create(path)?);
    let mut text = String::with_capacity(1024);
    for (at, resource) in resources.iter().enumerate() {
        text.clear();
        text.push_str(if at == 0 { "[" } else { ", " });
        text.push_str(&resource.attributes[..resource.attributes.len() - 1]);
        text.push_str(", \"requires\": [");
        for (at, required) in resource.requires.iter().enumerate() {
            text.push_str(if at == 0 { "\"" } else { ", \"" });
            text.push_str(&resources[*required as usize].id);
            text.push_str(",v=0\"");
        }
        text.push_str("], \"version\": 0, \"id\": \"");
        text.push_str(&resource.id);
        text.push_str(",v=0\"}");
        out.write_all(text.as_bytes())?;
    }
    out.write_all(b"]")?;
    out.flush()?;
    // The hashes and agents are results, too.
    std::hint::black_box(&resources);
    Ok(())
}

fn build(n: usize) -> Vec<Resource> {
    let mut all = Vec::with_capacity(10 * n);
    let mut name = String::new();
    let mut value = String::new();
    for service in 0..n {
        let agent = format!("host{}", service / SERVICES_A_HOST);
        let size = service % 7;
        let config = all.len() as u32;
        set(&mut name, format_args!("config-service{service}"));
        let tags = "names=2 tags=2 owner=ops";
        all.push(resource(&agent, &plain(&name, tags), Vec::new()));
        set(&mut name, format_args!("monitor-service{service}"));
        let monitor = Fields {
            name: &name,
            value: if size > 3 { "large" } else { "small" },
            int_value: size * 10,
            send_event: true,
        };
        all.push(resource(&agent, &monitor, vec![config]));
        for number in 0..4 {
            let data = all.len() as u32;
            set(&mut name, format_args!("data-service{service}-{number}"));
            set(&mut value, format_args!("weight 3 of service{service}"));
            all.push(resource(&agent, &plain(&name, &value), vec![config]));
            set(&mut name, format_args!("run-service{service}-{number}"));
            let run = Fields {
                name: &name,
                value: "",
                int_value: if number > 2 { number } else { 0 },
                send_event: number > 2,
            };
            all.push(resource(&agent, &run, vec![data]));
        }
    }
    all
}

/// What is exported of every resource of a connection, on both sides of what only some have.
const SWITCHES: &str = "\"purge_on_delete\": false, \"purged\": false, ";
const EVENTS: &str = "\"receive_events\": true, \"references\": [], ";

/// The resources of kind `service`.
fn connections(n: usize) -> Vec<Resource> {
    let n_devices = n_devices(n);
    let mut all = Vec::with_capacity(11 * n);
    for number in 0..n {
        let customer = number / CONNECTIONS_A_CUSTOMER;
        let mut addresses = [const { String::new() }; 2];
        let mut instances = [0; 2];
        for (at, end) in [2 * number, 2 * number + 1].into_iter().enumerate() {
            instances[at] = all.len() as u32;
            addresses[at] = site(number, customer, end, n_devices, &mut all);
        }
        if customer.is_multiple_of(3) {
            let device = format!("r{}", customer % n_devices);
            let bandwidth = BANDWIDTHS[number % BANDWIDTHS.len()];
            let interval = if bandwidth > 500 { 10 } else { 60 };
            let [a, b] = &addresses;
            let attributes = format!(
                "{{\"comment\": \"Customer {customer}: {bandwidth} Mbit/s\", \"device\": \"{device}\", \"interval\": {interval}, \"mutators\": [], \"name\": \"mon-vpn-{number}\", {SWITCHES}{EVENTS}\"report_only\": false, \"send_event\": true, \"targets\": [\"{a}\", \"{b}\"]}}"
            );
            let id = format!("vpn::Monitor[{device},name=mon-vpn-{number}]");
            all.push(hashed(id, device, attributes, instances.to_vec()));
        }
    }
    all
}

/// One end of a connection.
struct End {
    number: usize,
    customer: usize,
    bandwidth: usize,
    is_encrypted: bool,
    device: String,
    port: usize,
    address: String,
    neighbour: String,
    description: String,
}

impl End {
    fn add(
        &self,
        all: &mut Vec<Resource>,
        class: &str,
        name: &str,
        attributes: String,
        requires: Vec<u32>,
    ) {
        let device = &self.device;
        let id = format!("vpn::{class}[{device},name={name}]");
        all.push(hashed(id, device.clone(), attributes, requires));
    }
}

/// The resources of one end of a connection; its address.
fn site(
    number: usize,
    customer: usize,
    end: usize,
    n_devices: usize,
    all: &mut Vec<Resource>,
) -> String {
    let (high, low) = (end / 60, 4 * (end % 60));
    let network = format!("10.{}.{}", high / 256, high % 256);
    let port = end / n_devices;
    let end = End {
        number,
        customer,
        bandwidth: BANDWIDTHS[number % BANDWIDTHS.len()],
        is_encrypted: number.is_multiple_of(7),
        device: format!("r{}", end % n_devices),
        port,
        address: format!("{network}.{}", low + 1),
        neighbour: format!("{network}.{}", low + 2),
        description: match end % 4 {
            0 => format!("rack {port}"),
            _ => String::new(),
        },
    };
    let instance = all.len() as u32;
    routing(&end, all, instance);
    features(&end, all, instance);
    end.address
}

/// What every end has: an instance, an interface and a peer.
fn routing(end: &End, all: &mut Vec<Resource>, instance: u32) {
    let End {
        number,
        customer,
        bandwidth,
        device,
        port,
        address,
        neighbour,
        description,
        ..
    } = end;
    let as_number = 64512 + customer;
    let name = format!("vrf-vpn-{number}-{device}");
    let attributes = format!(
        "{{\"comment\": \"Customer {customer} {bandwidth} Mbit/s\", \"device\": \"{device}\", \"max_routes\": 1000, \"mutators\": [], \"name\": \"{name}\", {SWITCHES}{EVENTS}\"report_only\": false, \"route_target\": \"target:{as_number}:{number}\", \"send_event\": true}}"
    );
    end.add(all, "RoutingInstance", &name, attributes, Vec::new());
    let vlan = 1 + port % 4000;
    let name = format!("ge-0/0/{port}.{vlan}");
    let mtu = if end.is_encrypted { 1400 } else { 1500 };
    let attributes = format!(
        "{{\"address\": \"{address}\", \"comment\": \"\", \"device\": \"{device}\", \"is_enabled\": true, \"mtu\": {mtu}, \"mutators\": [], \"name\": \"{name}\", \"port\": \"ge-0/0/{port}\", {SWITCHES}{EVENTS}\"report_only\": false, \"send_event\": true, \"vlan\": {vlan}}}"
    );
    end.add(all, "Interface", &name, attributes, vec![instance]);
    let name = format!("bgp-vpn-{number}-{device}");
    let attributes = format!(
        "{{\"as_number\": {as_number}, \"comment\": \"{description}\", \"device\": \"{device}\", \"mutators\": [], \"name\": \"{name}\", \"neighbour\": \"{neighbour}\", {SWITCHES}{EVENTS}\"report_only\": false, \"send_event\": true, \"timers\": {{\"hold\": 90, \"keepalive\": 30}}}}"
    );
    end.add(all, "Peer", &name, attributes, vec![instance + 1, instance]);
}

/// What an end has by the features of its connection.
fn features(end: &End, all: &mut Vec<Resource>, instance: u32) {
    let End {
        number,
        bandwidth,
        device,
        address,
        neighbour,
        ..
    } = end;
    if *bandwidth < 1000 {
        let name = format!("qos-vpn-{number}-{device}");
        let burst = bandwidth * 125;
        let attributes = format!(
            "{{\"burst\": {burst}, \"comment\": \"\", \"device\": \"{device}\", \"mutators\": [], \"name\": \"{name}\", {SWITCHES}\"rate\": {bandwidth}, {EVENTS}\"report_only\": false, \"send_event\": true}}"
        );
        end.add(all, "Shaper", &name, attributes, vec![instance]);
    }
    let name = format!("acl-vpn-{number}-{device}");
    let attributes = format!(
        "{{\"allowed\": [\"{address}\", \"{neighbour}\"], \"comment\": \"networks of vpn-{number}\", \"device\": \"{device}\", \"mutators\": [], \"name\": \"{name}\", {SWITCHES}{EVENTS}\"report_only\": false, \"send_event\": true}}"
    );
    end.add(all, "Filter", &name, attributes, vec![instance]);
    if end.is_encrypted {
        let name = format!("ipsec-vpn-{number}-{device}");
        let attributes = format!(
            "{{\"cipher\": \"aes-256-gcm\", \"comment\": \"\", \"device\": \"{device}\", \"mutators\": [], \"name\": \"{name}\", {SWITCHES}{EVENTS}\"remote\": \"{neighbour}\", \"report_only\": false, \"send_event\": true}}"
        );
        end.add(all, "Tunnel", &name, attributes, vec![instance]);
    }
}

fn plain<'a>(name: &'a str, value: &'a str) -> Fields<'a> {
    Fields {
        name,
        value,
        int_value: 0,
        send_event: true,
    }
}

fn set(text: &mut String, what: std::fmt::Arguments) {
    text.clear();
    let _ = text.write_fmt(what);
}

fn resource(agent: &str, fields: &Fields, requires: Vec<u32>) -> Resource {
    let Fields {
        name,
        value,
        int_value,
        send_event,
    } = fields;
    let mut id = String::with_capacity(40 + agent.len() + name.len());
    for part in ["std::testing::NullResource[", agent, ",name=", name, "]"] {
        id.push_str(part);
    }
    let mut attributes = String::with_capacity(288 + agent.len() + name.len() + value.len());
    let _ = write!(
        attributes,
        "{{\"agentname\": \"{agent}\", \"fail\": false, \"int_value\": {int_value}, \"managed\": true, \"mutators\": [], \"name\": \"{name}\", \"purge_on_delete\": false, \"purged\": false, \"receive_events\": true, \"references\": [], \"report_only\": false, \"send_event\": {send_event}, \"value\": \"{value}\"}}"
    );
    hashed(id, agent.to_owned(), attributes, requires)
}

fn hashed(id: String, agent: String, attributes: String, requires: Vec<u32>) -> Resource {
    let mut hash = Md5::new();
    hash.update(id.as_bytes());
    hash.update(attributes.as_bytes());
    Resource {
        id,
        agent,
        attributes,
        hash: hash.finalize().into(),
        requires,
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        std::hint::black_box((&self.hash, &self.agent));
    }
}
