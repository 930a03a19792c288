//! Detects the container of a process.
//!
//! It uses the control group, and the namespaces and root directory that the process does not share with us.
//! An unknown container runtime is still visible by its namespaces; only its name is missing.

use crate::proc::{Proc, own_link};
use std::path::Path;

/// Namespaces that separate a container.
const NAMESPACES: [&str; 4] = ["mnt", "pid", "user", "net"];
/// Digits of a container's id.
const ID_LENGTH: usize = 64;
const RUNTIMES: [(&str, &str); 6] = [
    ("kubepods", "kubernetes"),
    ("docker", "docker"),
    ("libpod", "podman"),
    ("crio", "cri-o"),
    ("containerd", "containerd"),
    ("lxc", "lxc"),
];

/// The separation of a process from us.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Container {
    /// The container runtime: `docker`, `kubernetes`, `podman`, ...
    pub runtime: Option<&'static str>,
    /// Its id, shortened to twelve digits.
    pub id: Option<String>,
    /// Namespaces not shared with us, and `root` for another root directory.
    pub apart: Vec<&'static str>,
}

impl Container {
    /// Detects it by the process's control group, namespaces and root. `None`: the process is not separated from us.
    pub(crate) fn of(proc: &Proc, pid: u32) -> Option<Container> {
        let group = proc.read(pid, "cgroup").unwrap_or_default();
        let mut container = Container::of_group(&String::from_utf8_lossy(&group));
        for namespace in NAMESPACES {
            let name = format!("ns/{namespace}");
            let ours = own_link(&name);
            if let (Ok(theirs), Ok(ours)) = (proc.link(pid, &name), ours)
                && theirs != ours
            {
                container.apart.push(namespace);
            }
        }
        if proc.link(pid, "root").is_ok_and(|root| root != "/") {
            container.apart.push("root");
        }
        let same_group = std::fs::read("/proc/self/cgroup").is_ok_and(|ours| ours == group);
        if same_group {
            (container.runtime, container.id) = (None, None);
        }
        let contained = container.runtime.is_some() || container.apart.iter().any(|name| *name != "net");
        contained.then_some(container)
    }

    fn of_group(text: &str) -> Container {
        let mut container = Container::default();
        for path in text.lines().filter_map(|line| line.splitn(3, ':').nth(2)) {
            container.runtime = container.runtime.or(runtime_in(path));
            container.id = container.id.or_else(|| id_in(path));
        }
        container
    }
}

/// Reads `bytes` as a process's list of control groups with each parser of this crate. Returns whether one succeeded. For fuzzing.
pub fn read_any_group(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let container = Container::of_group(&text);
    let limits = crate::memory::limits_in(&text, Path::new("/nowhere")).len();
    assert!(limits <= text.lines().count());
    limits > 0 || container.runtime.is_some() || container.id.is_some()
}

fn runtime_in(path: &str) -> Option<&'static str> {
    RUNTIMES.iter().find(|(mark, _)| path.contains(mark)).map(|(_, name)| *name)
}

fn id_in(path: &str) -> Option<String> {
    let parts = path.rsplit(['/', '-', ':']).map(|part| part.trim_end_matches(".scope"));
    let mut ids = parts.filter(|part| part.len() == ID_LENGTH && part.bytes().all(|byte| byte.is_ascii_hexdigit()));
    ids.next().map(|id| id[..12].to_owned())
}

impl std::fmt::Display for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.runtime, &self.id) {
            (Some(runtime), Some(id)) => write!(f, "{runtime} {id}"),
            (Some(runtime), None) => f.write_str(runtime),
            (None, Some(id)) => f.write_str(id),
            (None, None) => write!(f, "own {}", self.apart.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_name_their_container() {
        let id = "0123456789abcdef".repeat(4);
        let cases = [
            (format!("0::/system.slice/docker-{id}.scope\n"), Some("docker"), true),
            (format!("12:cpu:/docker/{id}\n11:pids:/docker/{id}\n"), Some("docker"), true),
            (format!("0::/kubepods.slice/kubepods-pod12.slice/cri-containerd-{id}.scope\n"), Some("kubernetes"), true),
            (format!("0::/machine.slice/libpod-{id}.scope/container\n"), Some("podman"), true),
            ("0::/user.slice/user-0.slice/session-1.scope\n".to_owned(), None, false),
            ("0::/\n".to_owned(), None, false),
            (String::new(), None, false),
        ];
        for (text, runtime, has_id) in cases {
            let found = Container::of_group(&text);
            assert_eq!((found.runtime, found.id.as_deref()), (runtime, has_id.then_some("0123456789ab")), "{text}");
        }
    }
}
