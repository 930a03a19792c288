//! Dependencies: layers, single edges, and the transitive content of a layer.
//!
//! Test dependencies do not count: they are never shipped. Build dependencies do.

use super::rules::Rules;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The facts about one crate of the workspace.
#[derive(Debug, Default, Clone)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its layer; empty if its folder is in none.
    pub layer: String,
    /// The root files of its libraries and programs.
    pub roots: Vec<PathBuf>,
    /// Its id in cargo's metadata.
    pub id: String,
}

/// The workspace and its dependencies.
#[derive(Debug, Default)]
pub struct Workspace {
    /// Its crates.
    pub members: Vec<Member>,
    names: BTreeMap<String, String>,
    needs: BTreeMap<String, BTreeSet<String>>,
}

impl Workspace {
    /// Parses the output of `cargo metadata`.
    pub fn of(metadata: &Value) -> Workspace {
        let ids: BTreeSet<&str> = items(&metadata["workspace_members"]).filter_map(Value::as_str).collect();
        let root = text(&metadata["workspace_root"]);
        let mut workspace = Workspace::default();
        for package in items(&metadata["packages"]) {
            let (id, name) = (text(&package["id"]), text(&package["name"]));
            if ids.contains(id.as_str()) {
                let roots = items(&package["targets"]).filter(|target| is_shipped(target));
                workspace.members.push(Member {
                    layer: layer(&root, &text(&package["manifest_path"])).to_owned(),
                    roots: roots.map(|target| PathBuf::from(text(&target["src_path"]))).collect(),
                    name: name.clone(),
                    id: id.clone(),
                });
            }
            workspace.names.insert(id, name);
        }
        for node in items(&metadata["resolve"]["nodes"]) {
            let needed = items(&node["deps"]).filter(|edge| items(&edge["dep_kinds"]).any(counts));
            workspace.needs.insert(text(&node["id"]), needed.map(|edge| text(&edge["pkg"])).collect());
        }
        workspace
    }

    fn member(&self, id: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id)
    }

    fn needed_by(&self, id: &str) -> impl Iterator<Item = &String> {
        self.needs.get(id).into_iter().flatten()
    }

    /// Every package that `member` contains, with the package that depends on it.
    fn contents(&self, member: &Member) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut open = vec![member.id.clone()];
        while let Some(id) = open.pop() {
            for needed in self.needed_by(&id) {
                if !found.contains_key(needed) {
                    found.insert(needed.clone(), id.clone());
                    open.push(needed.clone());
                }
            }
        }
        found
    }

    fn name<'a>(&'a self, id: &'a str) -> &'a str {
        self.names.get(id).map_or(id, String::as_str)
    }
}

/// Every edge that the rules do not allow.
pub fn violations(workspace: &Workspace, rules: &Rules) -> Vec<String> {
    let mut violations = Vec::new();
    for member in &workspace.members {
        let Some(allowed) = rules.layers.get(&member.layer) else {
            violations.push(format!("{} is in no folder of a layer", member.name));
            continue;
        };
        for needed in workspace.needed_by(&member.id).filter_map(|id| workspace.member(id)) {
            if !allowed.contains(&needed.layer) {
                violations.push(format!(
                    "{} ({}) depends on {} ({}); its layer may depend on {allowed:?} only",
                    member.name, member.layer, needed.name, needed.layer
                ));
            } else if member.layer == "host" && !may_use(rules, &member.name, &needed.name) {
                violations.push(format!(
                    "{} depends on {}, which [host] in layers.toml does not allow it",
                    member.name, needed.name
                ));
            }
        }
        violations.extend(strangers(workspace, member, rules));
    }
    violations
}

/// Third-party crates that the member's layer may not contain.
fn strangers(workspace: &Workspace, member: &Member, rules: &Rules) -> Vec<String> {
    let Some(allowed) = rules.third_party.get(&member.layer) else { return Vec::new() };
    let contents = workspace.contents(member);
    let strangers = contents.iter().filter(|(id, _)| workspace.member(id).is_none());
    let refused = strangers.filter(|(id, _)| !allowed.contains(workspace.name(id)));
    refused
        .map(|(id, by)| {
            let (name, by) = (workspace.name(id), workspace.name(by));
            format!(
                "{} ({}) contains {name}, through {by}; its layer may contain {allowed:?} only",
                member.name, member.layer
            )
        })
        .collect()
}

fn may_use(rules: &Rules, user: &str, used: &str) -> bool {
    rules.host.get(user).is_some_and(|allowed| allowed.contains(used))
}

/// The layer of a crate: its folder in `crates`, or `dev`.
fn layer<'a>(root: &str, manifest: &'a str) -> &'a str {
    let mut folders = manifest.strip_prefix(root).unwrap_or(manifest).trim_start_matches('/').split('/');
    match folders.next() {
        Some("crates") => folders.next().unwrap_or_default(),
        Some("dev" | "tests") => "dev",
        _ => "",
    }
}

/// Whether a dependency ships. The loom target replaces atomics in tests only.
fn counts(kind: &Value) -> bool {
    kind["kind"] != "dev" && kind["target"] != "cfg(loom)"
}

fn is_shipped(target: &Value) -> bool {
    items(&target["kind"]).filter_map(Value::as_str).any(|kind| kind == "bin" || kind.ends_with("lib"))
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A made-up workspace: crates with their layers, and edges `from kind to`.
    fn workspace(members: &[(&str, &str)], strangers: &[&str], edges: &[(&str, &str, &str)]) -> Workspace {
        let all = || members.iter().map(|(name, _)| *name).chain(strangers.iter().copied());
        let packages: Vec<Value> = all()
            .map(|name| {
                let layer = members.iter().find(|(member, _)| *member == name).map_or("", |(_, layer)| *layer);
                let folder = if layer == "dev" { "dev".to_owned() } else { format!("crates/{layer}") };
                json!({ "id": name, "name": name, "manifest_path": format!("/w/{folder}/{name}/Cargo.toml"), "targets": [] })
            })
            .collect();
        let kind = |kind: &str| match kind {
            "normal" => json!({ "kind": null, "target": null }),
            "loom" => json!({ "kind": null, "target": "cfg(loom)" }),
            other => json!({ "kind": other, "target": null }),
        };
        let node = |name: &str| {
            let edges = edges.iter().filter(|(from, _, _)| *from == name);
            let deps: Vec<Value> = edges.map(|(_, how, to)| json!({ "pkg": to, "dep_kinds": [kind(how)] })).collect();
            json!({ "id": name, "deps": deps })
        };
        let members: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
        let nodes: Vec<Value> = all().map(node).collect();
        Workspace::of(
            &json!({ "workspace_root": "/w", "workspace_members": members, "packages": packages, "resolve": { "nodes": nodes } }),
        )
    }

    fn rules() -> Rules {
        Rules::read(&crate::root().join("layers.toml")).unwrap()
    }

    #[track_caller]
    fn check(workspace: &Workspace, expected: &[&str]) {
        let found = violations(workspace, &rules());
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, words) in found.iter().zip(expected) {
            assert!(found.contains(words), "`{words}` is not in `{found}`");
        }
    }

    const LAYERS: &[(&str, &str)] = &[
        ("agent", "target"),
        ("wire", "protocol"),
        ("remora-profile", "host"),
        ("remora", "remora"),
        ("xtask", "dev"),
    ];

    #[test]
    fn what_the_design_allows_is_allowed() {
        let edges = [
            ("agent", "normal", "wire"),
            ("agent", "normal", "libc"),
            ("remora", "normal", "remora-profile"),
            ("remora", "normal", "serde"),
            ("xtask", "normal", "agent"),
        ];
        check(&workspace(LAYERS, &["libc", "serde"], &edges), &[]);
    }

    #[test]
    fn a_layer_does_not_reach_into_another() {
        check(
            &workspace(LAYERS, &[], &[("agent", "normal", "remora-profile")]),
            &["agent (target) depends on remora-profile"],
        );
        check(&workspace(LAYERS, &[], &[("wire", "build", "agent")]), &["wire (protocol) depends on agent"]);
        check(&workspace(LAYERS, &[], &[("remora", "normal", "agent")]), &["remora (remora) depends on agent"]);
        check(&workspace(LAYERS, &[], &[("remora", "normal", "xtask")]), &["remora (remora) depends on xtask"]);
    }

    #[test]
    fn nothing_uses_the_command() {
        check(
            &workspace(LAYERS, &[], &[("remora-profile", "normal", "remora")]),
            &["remora-profile (host) depends on remora"],
        );
    }

    #[test]
    fn a_stranger_inside_is_found_through_others() {
        let edges = [("agent", "normal", "wire"), ("wire", "normal", "libc"), ("libc", "normal", "log")];
        let expected = [
            "agent (target) contains log, through libc",
            "wire (protocol) contains libc",
            "wire (protocol) contains log",
        ];
        check(&workspace(LAYERS, &["libc", "log"], &edges), &expected);
    }

    #[test]
    fn tests_may_use_anything() {
        let edges = [("agent", "dev", "serde"), ("wire", "dev", "agent"), ("wire", "loom", "serde")];
        check(&workspace(LAYERS, &["serde"], &edges), &[]);
    }

    #[test]
    fn a_crate_in_no_layer_is_refused() {
        check(&workspace(&[("new", "")], &[], &[]), &["new is in no folder of a layer"]);
        check(&workspace(&[("new", "cellar")], &[], &[]), &["new is in no folder of a layer"]);
    }
}
