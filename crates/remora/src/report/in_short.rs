//! The answer in one line: the last line of a recording, above the prompt.

use super::application::waits_for as waits_for_words;
use super::findings::{is_one_place, method};
use super::hint::hints;
use super::method::{name, short};
use crate::console::{counted, percent};
use remora_profile::{ApplicationMethod, ApplicationRule, ApplicationTime, BlockedTime, Finding, Problem, Profile};
use remora_terminal::beginning;

/// Columns of the answer.
const LONGEST: usize = 400;

/// Fewer samples say nothing of shares.
const ENOUGH: usize = 20;

/// The problems with their places, else what to try, else the method with most time. Nothing without a sample.
pub(crate) fn in_short(profile: &Profile, time: &ApplicationTime, rule: &ApplicationRule) -> Option<String> {
    if profile.samples().is_empty() {
        return None;
    }
    let findings = Finding::all(profile, time);
    let only_cpu = findings.iter().all(|finding| finding.problem == Problem::CpuShortage);
    let problems = findings.iter().map(|finding| problem(profile, finding));
    // A shortage of CPUs is no answer: it makes everything slow.
    let rest =
        only_cpu.then(|| hints(profile, time, rule).into_iter().next().or_else(|| most(profile, time))).flatten();
    let answer: Vec<String> = problems.chain(rest).collect();
    (!answer.is_empty()).then(|| {
        let answer = answer.join("; ");
        // Names can have any length.
        let shown = beginning(&answer, LONGEST);
        if shown.len() < answer.len() { format!("{shown}…") } else { answer }
    })
}

/// Its name and its places.
fn problem(profile: &Profile, finding: &Finding) -> String {
    let words = finding.problem.code().replace('-', " ").replace("jit", "JIT").replace("cpu", "CPU");
    let place = match (finding.frame, finding.callee) {
        _ if finding.problem == Problem::CpuShortage => return words,
        (Some(frame), _) => method(profile, frame),
        (None, Some(callee)) => short(name(profile, callee)).to_owned(),
        (None, None) => return words,
    };
    match finding.wait {
        Some(_) if !is_one_place(finding) => {
            format!("{words} at {} places, most threads in {place}", finding.place_count)
        }
        // The place of the threads that wait, not of the one that holds the lock.
        Some(_) if finding.problem == Problem::LockConvoy => format!("{words}, threads wait in {place}"),
        _ => format!("{words} in {place}"),
    }
}

/// What most of a method's time waits for.
fn waits_for(profile: &Profile, time: &ApplicationTime, hottest: &ApplicationMethod) -> Option<&'static str> {
    let of_it =
        |row: &&BlockedTime| row.frame.is_some_and(|frame| name(profile, frame) == name(profile, hottest.frame));
    // The rows are in order of their time.
    let longest = time.blocked.iter().filter(|row| !row.is_idle).find(of_it)?;
    (longest.weight.saturating_mul(2) > hottest.weight()).then(|| waits_for_words(longest.wait))
}

/// The method with most time, or that none has most of it.
fn most(profile: &Profile, time: &ApplicationTime) -> Option<String> {
    let samples = profile.samples().len();
    if samples < ENOUGH {
        return Some(format!("only {}, too few for shares: record for longer", counted(samples as u64, "sample")));
    }
    let busy = time.busy();
    let outside = time.elsewhere.saturating_sub(time.idle);
    match time.methods.first().filter(|hottest| hottest.weight() >= outside) {
        Some(hottest) => {
            let place = hottest.lines.first().map_or(hottest.frame, |line| line.frame);
            let waits = waits_for(profile, time, hottest).map(|wait| format!(", waiting for: {wait}"));
            let waits = waits.unwrap_or_default();
            Some(format!("{} of the time is in {}{waits}", percent(hottest.weight(), busy), method(profile, place)))
        }
        None => (outside > 0).then(|| format!("{} of the time has no application method", percent(outside, busy))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::{Frame, FrameKind, Meta, Sample, State, Thread};

    /// The samples of each stack.
    const SAMPLES: u64 = 10;

    /// Samples of these weights in methods of the shop, from caller to callee.
    fn made(samples: &[(u64, &[&str])], meta: Meta) -> Profile {
        let mut profile = Profile::new(meta);
        let thread = profile.add_thread(Thread { id: 1, name: "main".into() });
        for (weight, names) in samples {
            let frame = |name: &&str| {
                let module = if name.starts_with("Shop.") { "Shop.dll" } else { "System.Private.CoreLib.dll" };
                let (name, module, file) = (profile.string(name), profile.string(module), profile.string("shop.cs"));
                profile.frame(Frame {
                    kind: FrameKind::Managed,
                    name,
                    module: Some(module),
                    file: Some(file),
                    line: Some(9),
                })
            };
            let frames: Vec<_> = names.iter().map(frame).collect();
            let stack = profile.stack_from_root(frames).expect("there are frames");
            for part in 0..SAMPLES {
                let weight = weight * (part + 1) / SAMPLES - weight * part / SAMPLES;
                profile.add_sample(Sample { time: 0, thread, stack, weight, state: State::Running });
            }
        }
        profile
    }

    fn answer_of(profile: &Profile) -> Option<String> {
        let rule = ApplicationRule::default();
        in_short(profile, &ApplicationTime::of(profile, &rule, None), &rule)
    }

    fn answer(samples: &[(u64, &[&str])]) -> Option<String> {
        answer_of(&made(samples, Meta { duration: 100, ..Meta::default() }))
    }

    #[test]
    fn one_line_has_the_problems_else_the_method_with_most_time() {
        let throws: &[&str] = &["Shop.Read(int)", "System.Runtime.EH.RhThrowEx(object)"];
        let (work, other): (&[&str], &[&str]) = (&["Shop.Work()"], &["System.Threading.Timer.Fire()"]);
        assert_eq!(answer(&[(60, throws), (40, work)]).as_deref(), Some("exceptions in Shop.Read (shop.cs:9)"));
        let method = answer(&[(60, work), (40, other)]);
        assert_eq!(method.as_deref(), Some("60.0% of the time is in Shop.Work (shop.cs:9)"));
        let none = answer(&[(40, work), (60, other)]);
        assert_eq!(none.as_deref(), Some("60.0% of the time has no application method"));
        assert_eq!(answer(&[]), None);
    }

    #[test]
    fn a_percentage_of_almost_nothing_was_the_answer_of_an_idle_process() {
        let profile = made(&[(60, &["Shop.Work()"])], Meta { target_cpu: Some(1), duration: 100, ..Meta::default() });
        let hint = "the process used 1.0% of a CPU; -e wall shows what its threads wait for";
        assert_eq!(answer_of(&profile).as_deref(), Some(hint));
    }

    #[test]
    fn of_eight_samples_a_method_with_five_was_the_answer() {
        let mut profile = made(&[(60, &["Shop.Work()"])], Meta { duration: 100, ..Meta::default() });
        let few = Profile::clone(&profile);
        let (stack, thread) = (profile.samples()[0].stack, profile.samples()[0].thread);
        for _ in 0..ENOUGH {
            profile.add_sample(Sample { time: 0, thread, stack, weight: 1, state: State::Running });
        }
        assert_eq!(answer_of(&few).as_deref(), Some("only 10 samples, too few for shares: record for longer"));
        assert_eq!(answer_of(&profile).as_deref(), Some("100.0% of the time is in Shop.Work (shop.cs:9)"));
    }
}
