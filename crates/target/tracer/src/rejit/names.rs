//! Names of the functions in the stacks of records.
//!
//! Threads of the application ask; the session's thread answers. A function id may go stale when its module unloads. So the callback of the
//! unload drops all open questions, and waits for the one that is being answered.

use super::metadata::Metadata;
use super::{runtime, shared};
use corprof::FunctionId;
use remora_wire::method_trace::FromTracer;
use remora_wire::method_trace::memory::NAMES_LOST;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Functions in all stacks of a session.
const MOST_NAMES: usize = 20_000;

/// Functions named without a pause.
const AT_ONCE: usize = 64;

struct Questions {
    open: Vec<u64>,
    known: Option<BTreeSet<u64>>,
}

static QUESTIONS: Mutex<Questions> = Mutex::new(Questions { open: Vec::new(), known: None });

fn questions() -> MutexGuard<'static, Questions> {
    QUESTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks for the names of functions that have none yet.
pub(crate) fn ask_for(functions: &[u64]) {
    let mut questions = questions();
    let Questions { open, known } = &mut *questions;
    let known = known.get_or_insert_default();
    for function in functions {
        if known.len() >= MOST_NAMES {
            shared::count(NAMES_LOST);
        } else if known.insert(*function) {
            open.push(*function);
        }
    }
}

/// Answers some open questions.
pub(crate) fn answer(mut send: impl FnMut(FromTracer)) {
    for _ in 0..AT_ONCE {
        let answered = {
            // Held during the look-up: see `forget_open`.
            let mut questions = questions();
            questions.open.pop().map(|function| (function, name(FunctionId(function as usize))))
        };
        match answered {
            Some((function, Some(name))) => send(FromTracer::Name { function, name }),
            Some((_, None)) => shared::count(NAMES_LOST),
            None => return,
        }
    }
}

/// A module unloads: the open questions may be about it.
pub(crate) fn forget_open() {
    let mut questions = questions();
    let stale = std::mem::take(&mut questions.open);
    stale.iter().for_each(|_| shared::count(NAMES_LOST));
}

/// A session ends.
pub(crate) fn forget_all() {
    *questions() = Questions { open: Vec::new(), known: None };
}

fn name(function: FunctionId) -> Option<String> {
    let info = runtime::info()?;
    match info.get_function_info2(function) {
        Ok(found) => Metadata::of(info, found.module).ok()?.full_name(found.token.0),
        Err(_) => info.get_dynamic_function_info(function).ok().map(|found| format!("[dynamic] {}", found.name)),
    }
}
