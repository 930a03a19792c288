//! Says in which method the program is most: stops its managed threads a hundred times a second and looks at each leaf.
//! Native code does not count, and shares are coarse. Client data and the end are those of `module_logger`.

use corprof::{sdk::*, *};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::{collections::BTreeMap, ops::ControlFlow, sync::Mutex, time::Duration};

struct Sampler {
    listener: UnixStream,
    /// Held from the stop until the names are known: no module is unloaded meanwhile.
    unloads: Mutex<()>,
}

impl Sampler {
    fn sample<'rt>(&self, session: &Session<'rt>, hits: &mut BTreeMap<String, u64>) -> Result<(), HResult> {
        let _unloads = self.unloads.lock();
        let (standing, mut leaves) = (session.stop()?, Vec::<Function<'rt>>::with_capacity(1024));
        for thread in standing.threads()?.flatten().take(1024) {
            let _ = standing.walk(thread, |leaf, _| {
                leaves.extend(leaf);
                ControlFlow::Break(())
            });
        }
        drop(standing);
        for leaf in leaves {
            *hits.entry(session.function_name(leaf)?).or_default() += 1;
        }
        Ok(())
    }
}

impl<'rt> Profiler<'rt> for Sampler {
    fn attach(_: &Beginning<'rt, Attached>, client_data: &[u8]) -> Result<Self, HResult> {
        let path = std::str::from_utf8(client_data).map_err(|_| HResult::E_INVALIDARG)?;
        let listener = UnixStream::connect(path).map_err(|_| HResult::E_FAIL)?;
        listener.set_read_timeout(Some(Duration::from_millis(10))).map_err(|_| HResult::E_FAIL)?;
        Ok(Sampler { listener, unloads: Mutex::default() })
    }
    fn wants(&self) -> Events {
        (AttachMask::STACK_SNAPSHOT | AttachMask::MODULE_LOADS).into()
    }
    fn module_unload_started(&self, _: &Runtime<'rt>, _: Module<'rt>) {
        drop(self.unloads.lock());
    }
    fn run(&self, session: &Session<'rt>) {
        let (mut hits, mut failed) = (BTreeMap::new(), 0);
        while matches!((&self.listener).read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock) {
            failed += u64::from(self.sample(session, &mut hits).is_err());
            if let Some((method, count)) = hits.iter().max_by_key(|(_, count)| **count) {
                let all: u64 = hits.values().sum();
                let _ = writeln!(&self.listener, "{count} of {all} in {method}, {failed} rounds failed");
            }
        }
    }
    fn sealed(self, _: &Farewell) {
        let _ = writeln!(&self.listener, "detached");
    }
}
export_profiler!(Sampler, clsid = "{636F7270-726F-6600-7361-6D706C650001}");
