//! Compares the callers in two recordings of one program: a recording under test, and a reference by the runtime's own sampler.
//!
//! The runtime walks its stacks with its own tables, so it loses no caller. Suppose it only ever sees A call B and B call C. Then a call
//! of C by A in the other recording has lost B.
//! Methods are compared by name and number of parameters, because the two recordings name type arguments differently. Async methods are
//! compared by name: only one recording knows their parameters. Native frames are left out, because the reference has none.

use remora_profile::{FrameKind, Profile};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

/// Methods between a caller and a callee that may be missing together, at most.
const LONGEST_GAP: usize = 8;

/// A managed method as both recordings name it.
type Method = String;

/// The losses of a recording.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Nanoseconds of stacks, by caller, missing methods and callee.
    pub edges: BTreeMap<(Method, Vec<Method>, Method), u64>,
    /// Methods of the application missing from the whole recording.
    pub methods: BTreeSet<Method>,
}

impl Lost {
    /// The losses of `recording`, compared with `reference`.
    pub fn between(recording: &Profile, reference: &Profile) -> Lost {
        let names = Names::of(&[recording, reference]);
        let mut known = Known::default();
        for stack in stacks(reference, &names).keys() {
            known.learn(stack);
        }
        let mut lost = Lost { edges: BTreeMap::new(), methods: application_methods(reference, &names) };
        for (stack, weight) in stacks(recording, &names) {
            for pair in stack.windows(2) {
                if let [caller, callee] = pair
                    && let Some(missing) = known.missing(caller, callee)
                {
                    *lost.edges.entry((caller.clone(), missing.clone(), callee.clone())).or_default() += weight;
                }
            }
            stack.iter().for_each(|method| {
                lost.methods.remove(method);
            });
        }
        lost
    }

    /// Whether nothing is lost.
    pub fn is_nothing(&self) -> bool {
        self.edges.is_empty() && self.methods.is_empty()
    }
}

/// Reads a `.remora` file.
///
/// # Errors
/// A message.
pub fn read(file: &Path) -> Result<Profile, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let recording = remora_recording::read(bytes.as_slice()).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(recording.profile)
}

/// The calls of the reference.
#[derive(Default)]
struct Known {
    edges: BTreeSet<(Method, Method)>,
    /// Methods seen between two others.
    through: HashMap<(Method, Method), Vec<Method>>,
}

impl Known {
    fn learn(&mut self, stack: &[Method]) {
        for (at, caller) in stack.iter().enumerate() {
            let callees = stack.get(at + 1..).unwrap_or_default();
            if let Some(callee) = callees.first() {
                self.edges.insert((caller.clone(), callee.clone()));
            }
            for (gap, callee) in callees.iter().enumerate().take(LONGEST_GAP + 1).skip(1) {
                let between = callees.get(..gap).unwrap_or_default();
                self.through.entry((caller.clone(), callee.clone())).or_insert_with(|| between.to_vec());
            }
        }
    }

    fn missing(&self, caller: &Method, callee: &Method) -> Option<&Vec<Method>> {
        let call = (caller.clone(), callee.clone());
        if self.edges.contains(&call) { None } else { self.through.get(&call) }
    }
}

/// Each stack's managed methods, outermost first, and its weight.
fn stacks(profile: &Profile, names: &Names) -> HashMap<Vec<Method>, u64> {
    let mut weights = HashMap::new();
    profile.samples().iter().for_each(|sample| *weights.entry(sample.stack).or_insert(0) += sample.weight);
    let mut stacks = HashMap::new();
    for (stack, weight) in weights {
        let managed =
            profile.walk(stack).map(|frame| profile.frame_at(frame)).filter(|frame| frame.kind == FrameKind::Managed);
        let mut methods: Vec<Method> = managed.map(|frame| names.method(profile.text(frame.name))).collect();
        methods.reverse();
        *stacks.entry(methods).or_insert(0) += weight;
    }
    stacks
}

fn application_methods(profile: &Profile, names: &Names) -> BTreeSet<Method> {
    let of_framework =
        |module: &str| ["System.", "Microsoft.", "Interop."].iter().any(|start| module.starts_with(start));
    let of_application = profile.frames().iter().filter(|frame| {
        frame.kind == FrameKind::Managed && frame.module.is_some_and(|module| !of_framework(profile.text(module)))
    });
    of_application.map(|frame| names.method(profile.text(frame.name))).collect()
}

/// How methods are compared.
struct Names {
    /// Names without parameters in one of the recordings.
    bare: HashSet<String>,
}

impl Names {
    fn of(profiles: &[&Profile]) -> Names {
        let of_profile = |profile: &&Profile| -> Vec<(String, Option<usize>)> {
            profile.frames().iter().map(|frame| parts(profile.text(frame.name))).collect()
        };
        let bare = profiles.iter().flat_map(of_profile).filter(|(_, parameters)| parameters.is_none());
        Names { bare: bare.map(|(name, _)| name).collect() }
    }

    fn method(&self, name: &str) -> Method {
        match parts(name) {
            (short, Some(parameters)) if !self.bare.contains(&short) => format!("{short}/{parameters}"),
            (short, _) => short,
        }
    }
}

/// The name without type arguments, and the number of parameters if it has any list of them.
fn parts(name: &str) -> (String, Option<usize>) {
    let (mut short, mut depth, mut parameters) = (String::new(), 0_usize, None);
    for letter in name.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 && parameters.is_none() => parameters = Some(0),
            ',' if depth == 0 => parameters = parameters.map(|count: usize| count.max(1) + 1),
            ')' if depth == 0 => {}
            _ if depth > 0 => {}
            _ => match &mut parameters {
                Some(count) => *count = (*count).max(1),
                None => short.push(letter),
            },
        }
    }
    (short, parameters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::{Frame, Meta, Sample, State, Thread};

    /// Stacks of an application's methods and of native code, outermost first.
    fn profile(stacks: &[&[&str]]) -> Profile {
        let mut profile = Profile::new(Meta::default());
        let thread = profile.add_thread(Thread { id: 1, name: String::new() });
        let module = profile.string("app.dll");
        for names in stacks {
            let frames: Vec<_> = names
                .iter()
                .map(|name| {
                    let kind = if name.contains(".so") { FrameKind::Native } else { FrameKind::Managed };
                    let name = profile.string(name);
                    profile.frame(Frame { kind, name, module: Some(module), file: None, line: None })
                })
                .collect();
            let stack = profile.stack_from_root(frames).expect("no empty stack");
            profile.add_sample(Sample { time: 1, thread, stack, weight: 5, state: State::Running });
        }
        profile
    }

    #[test]
    fn a_call_that_only_exists_by_way_of_another_method_is_a_lost_caller() {
        let reference = profile(&[&["A()", "B<int>(int, List<a, b>)", "C()"], &["A()", "D()"]]);
        let good =
            profile(&[&["x.so", "A()", "y.so", "B<T>(T, List<T, U>)", "z.so", "C()", "z.so"], &["A()", "D()", "C()"]]);
        assert!(
            Lost::between(&good, &reference).is_nothing(),
            "a call that the reference does not know is no lost caller"
        );
        let bad = profile(&[&["A()", "z.so", "C()"]]);
        let lost = Lost::between(&bad, &reference);
        assert_eq!(lost.edges.into_iter().collect::<Vec<_>>(), [(("A/0".into(), vec!["B/2".into()], "C/0".into()), 5)]);
        assert_eq!(lost.methods.into_iter().collect::<Vec<_>>(), ["B/2", "D/0"]);
        let both = profile(&[&["A()", "B(int, int)", "C()"], &["A()", "C()"]]);
        let lost = Lost::between(&bad, &both);
        assert!(lost.edges.is_empty(), "the reference has seen that call, too");
    }

    #[test]
    fn an_async_method_is_the_same_with_and_without_parameters() {
        let reference = profile(&[&["Load()", "Send", "Flush()"]]);
        let recording = profile(&[&["Load()", "Send(Request, bool)", "Flush()"]]);
        assert!(Lost::between(&recording, &reference).is_nothing());
    }
}
