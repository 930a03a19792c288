//! A recorded call in words.

use super::nesting;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use remora_calls::{arguments, constant_of_result, described, result};
use remora_collector::{MethodTrace, TracedMethod};
use remora_wire::method_trace::TraceRecord;
use serde_json::{Value, json};

/// Callers shown of a call.
const CALLERS: usize = 4;

/// Methods by which .NET continues asynchronous ones: between callers they say nothing.
const PLUMBING: [&str; 3] = [
    "System.Runtime.CompilerServices.Async",
    "System.Threading.ExecutionContext.",
    "System.Threading.Tasks.AwaitTaskContinuation.",
];

/// `Shop.Orders.Pay(17, "cash") = true`.
pub(super) fn shown(trace: &MethodTrace, record: &TraceRecord, with_values: bool) -> String {
    let method = trace.methods().get(&record.method);
    let name = method.map_or_else(|| format!("method {}", record.method), name);
    if !with_values {
        return name;
    }
    let parameters = method.map(|method| method.parameters.as_slice()).unwrap_or_default();
    described(&name, &record.values, parameters)
}

/// A method's name; that of steps says so.
pub(super) fn name(method: &TracedMethod) -> String {
    if method.steps_of.is_some() { format!("{} (steps)", method.name) } else { method.name.clone() }
}

/// `Shop.Orders.Pay(int)` as `Shop.Orders.Pay`: only an overloaded method has parameters in its name.
fn without_parameters(name: &str) -> &str {
    name.split_once('(').map_or(name, |(name, _)| name)
}

/// The callers, innermost first.
pub(super) fn callers(trace: &MethodTrace, record: &TraceRecord) -> Vec<String> {
    let name = |function: &u64| trace.name(*function).map_or_else(|| "?".to_owned(), str::to_owned);
    let stack: Vec<String> = record.stack.iter().map(name).collect();
    // The first step of an asynchronous method runs below the method itself, and the runtime's builder is between them.
    let method = trace.methods().get(&record.method).filter(|method| method.is_async);
    let own =
        method.and_then(|method| stack.iter().position(|name| name == without_parameters(&method.name))).unwrap_or(0);
    stack.into_iter().skip(own + 1).collect()
}

/// The nearest callers on a line.
pub(super) fn nearest(trace: &MethodTrace, record: &TraceRecord) -> Option<String> {
    let callers = callers(trace, record);
    let is_of_the_application = |name: &&String| !PLUMBING.iter().any(|start| name.starts_with(start));
    let callers: Vec<String> = callers.iter().filter(is_of_the_application).take(CALLERS).cloned().collect();
    let shown = callers.join(" < ");
    (!shown.is_empty()).then_some(shown)
}

/// For each record, the index of the one that it ran within.
pub(super) fn within(trace: &MethodTrace) -> Vec<Option<usize>> {
    let method = |record: &TraceRecord| trace.methods().get(&record.method);
    let is_async = |record: &TraceRecord| method(record).is_some_and(|method| method.is_async);
    let is_below = |record: &TraceRecord, outer: &TraceRecord| {
        method(outer)
            .is_some_and(|outer| callers(trace, record).iter().any(|name| name == without_parameters(&outer.name)))
    };
    nesting::within(trace.records(), is_async, is_below)
}

fn begin(trace: &MethodTrace, record: &TraceRecord) -> Option<Timestamp> {
    Timestamp::from_nanosecond(trace.unix_time(record)?.into()).ok()
}

/// The time of day of its beginning, in this time zone.
pub(super) fn time_of_day(trace: &MethodTrace, record: &TraceRecord) -> String {
    begin(trace, record).map_or_else(|| "?".to_owned(), |begin| time_in(begin, TimeZone::system()))
}

fn time_in(time: Timestamp, zone: TimeZone) -> String {
    time.to_zoned(zone).strftime("%H:%M:%S%.3f").to_string()
}

/// As ISO 8601 has it, in UTC.
fn iso(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// A call as JSON; `within` is the index of another one.
pub(super) fn as_json(trace: &MethodTrace, record: &TraceRecord, within: Option<usize>) -> Value {
    let method = trace.methods().get(&record.method);
    let parameters = method.map(|method| method.parameters.as_slice()).unwrap_or_default();
    let mut call = json!({
        "method": method.map(|method| method.name.as_str()),
        "thread": record.thread,
        "begin_nanoseconds": record.begin,
        "begin_time": begin(trace, record).map(iso),
        "duration_nanoseconds": record.duration,
        "exception": record.is_thrown,
        "within": within,
        "callers": callers(trace, record),
        "arguments": arguments(&record.values, parameters),
    });
    // Left out if it was not recorded; null is a null string.
    if let (Some(result), Some(call)) = (result(&record.values, parameters), call.as_object_mut()) {
        call.insert("result".to_owned(), result);
        call.extend(constant_of_result(&record.values, parameters).map(|name| ("result_enum".to_owned(), json!(name))));
    }
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_local_with_milliseconds_and_in_utc_with_microseconds() {
        let time = Timestamp::from_nanosecond(1_700_000_000_012_345_678).expect("in range");
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!((time_in(time, zone), iso(time)), ("00:13:20.012".into(), "2023-11-14T22:13:20.012345Z".into()));
    }
}
