//! Reports the method with the most samples: suspends the managed threads a hundred times a second and reads each leaf.
//! Native code does not count, and shares are coarse. Client data and detach are as in `module_logger`.

use corprof::{sdk::*, *};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::{ffi::OsStrExt, net::UnixStream};
use std::{collections::BTreeMap, ffi::OsStr, ops::ControlFlow, sync::Mutex, time::Duration};

struct Sampler {
    listener: UnixStream,
    /// Held from the suspension until all names are known: no module and no dynamic method unloads meanwhile.
    unloads: Mutex<()>,
}

impl Sampler {
    fn sample<'rt>(&self, session: &Session<'rt>, hits: &mut BTreeMap<String, u64>) -> Result<(), HResult> {
        let (_unloads, standing, mut leaves) = (self.unloads.lock(), session.suspend()?, Vec::with_capacity(1024));
        for thread in standing.threads()?.flatten().take(1024) {
            let _ = standing.walk(thread, |leaf, _| {
                leaves.extend(leaf);
                ControlFlow::Break(())
            });
        }
        drop(standing);
        let mut count = |name| *hits.entry(name).or_default() += 1;
        leaves.into_iter().try_for_each(|leaf| session.function_name(leaf).map(&mut count))
    }
}

impl<'rt> Profiler<'rt> for Sampler {
    fn attach(_: &Beginning<'rt, Attached>, client_data: &[u8]) -> Result<Self, HResult> {
        let listener = UnixStream::connect(OsStr::from_bytes(client_data)).map_err(|_| HResult::E_FAIL)?;
        listener.set_read_timeout(Some(Duration::from_millis(10))).map_err(|_| HResult::E_FAIL)?;
        Ok(Sampler { listener, unloads: Mutex::default() })
    }
    fn events(&self) -> Events {
        let low = AttachMask::STACK_SNAPSHOT | AttachMask::MODULE_LOADS;
        Events { low, high: HighAttachMask::DYNAMIC_FUNCTION_UNLOADS }
    }
    fn module_unload_started(&self, _: &Runtime<'rt>, _: Module<'rt>) {
        drop(self.unloads.lock());
    }
    fn dynamic_method_unloaded(&self, _: &Runtime<'rt>, _: Function<'rt>) {
        drop(self.unloads.lock());
    }
    fn run(&self, session: &Session<'rt>) {
        let (mut hits, mut failed) = (BTreeMap::new(), 0);
        while matches!((&self.listener).read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock) {
            failed += u64::from(self.sample(session, &mut hits).is_err());
            if let Some((method, count)) = hits.iter().max_by_key(|(_, count)| **count) {
                let all = hits.values().sum::<u64>();
                let _ = writeln!(&self.listener, "{count} of {all} in {method}, {failed} rounds failed");
            }
        }
    }
    fn detached(self, _: &DetachSummary) {
        let _ = writeln!(&self.listener, "detached");
    }
}
export_profiler!(Sampler, clsid = "{636F7270-726F-6600-7361-6D706C650001}");
