//! The floor: builds the resources of a project of kind `refine` in memory, hashes them as the export does, and writes
//! the same JSON. No model, no language, nothing that the result does not need: as fast as we can make it.

use std::fmt::Write as _;
use std::io::Write as _;

use md5::{Digest, Md5};

use crate::generate::SERVICES_A_HOST;

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
pub fn run(n: usize, path: &str) -> std::io::Result<()> {
    let resources = build(n);
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
    let mut hash = Md5::new();
    hash.update(id.as_bytes());
    hash.update(attributes.as_bytes());
    Resource {
        id,
        agent: agent.to_owned(),
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
