//! The hosting interfaces for a trigger process of the .NET Framework (contract ATT-21).
//!
//! The codes of a refused attach follow the documentation of `ICLRProfiling::AttachProfiler`
//! (<https://learn.microsoft.com/dotnet/framework/unmanaged-api/profiling/iclrprofiling-attachprofiler-method>).

use super::{Machine, Process};
use crate::mutation;
use crate::runtime::{NamedRequest, Runtime};
use corprof::HResult;
use remora_clr_abi::Slot;
use remora_clr_abi::metahost::{self, AttachRequest, Fenced, MetaHost, Profiling};
use std::any::Any;
use std::sync::Arc;

/// HRESULT_FROM_WIN32(ERROR_FILE_NOT_FOUND): no such process, or no runtime in it accepts an attach.
pub(crate) const NO_RUNTIME: HResult = HResult(0x8007_0002_u32 as i32);

/// The server of one trigger process.
pub(crate) struct HostingServer {
    machine: Arc<Machine>,
    trigger: Arc<Process>,
}

/// One runtime of a target, and the attach interface of its kind.
struct FoundRuntime {
    server: Arc<HostingServer>,
    runtime: Arc<Runtime>,
}

impl HostingServer {
    pub(crate) fn new(machine: &Arc<Machine>, trigger: &Arc<Process>) -> HostingServer {
        HostingServer { machine: machine.clone(), trigger: trigger.clone() }
    }

    /// `OpenProcess` with all access. The handle is the process's number here.
    pub(crate) fn open_process(&self, id: u32) -> Result<usize, HResult> {
        let target = self.machine.process(id).ok_or(HResult::E_INVALIDARG)?;
        let may = self.trigger.account.may_attach_to(&target.account, self.machine.runtime_version);
        if may { Ok(id as usize) } else { Err(HResult::E_ACCESSDENIED) }
    }
}

impl Fenced for HostingServer {
    fn panicked(&self, slot: Slot, payload: Box<dyn Any + Send>) {
        self.machine.faults.model_panicked(slot.name, &*payload);
    }
}

impl Fenced for FoundRuntime {
    fn panicked(&self, slot: Slot, payload: Box<dyn Any + Send>) {
        self.server.panicked(slot, payload);
    }
}

impl MetaHost for HostingServer {
    fn loaded_runtimes(&self, process: usize) -> Result<Vec<Arc<dyn metahost::Runtime>>, HResult> {
        let target = u32::try_from(process).ok().and_then(|id| self.machine.process(id)).ok_or(HResult::E_HANDLE)?;
        let found = |runtime| {
            let server = Arc::new(HostingServer::new(&self.machine, &self.trigger));
            Arc::new(FoundRuntime { server, runtime }) as Arc<dyn metahost::Runtime>
        };
        Ok(target.runtimes().into_iter().map(found).collect())
    }
}

impl metahost::Runtime for FoundRuntime {
    fn version(&self) -> String {
        if mutation::is("ATT-21/2") { String::new() } else { self.runtime.version().to_string() }
    }

    fn profiling(&self) -> Result<Arc<dyn Profiling>, HResult> {
        if !self.runtime.is_attachable() && !mutation::is("ATT-21") {
            return Err(HResult::E_NOINTERFACE);
        }
        Ok(Arc::new(FoundRuntime { server: self.server.clone(), runtime: self.runtime.clone() }))
    }
}

impl Profiling for FoundRuntime {
    /// Attaches to this release's runtime in the requested process. It may differ from the process in which the interface was found.
    fn attach_profiler(&self, request: AttachRequest) -> HResult {
        let target = match self.server.open_process(request.process) {
            Ok(_) => self.server.machine.process(request.process),
            Err(HResult::E_ACCESSDENIED) => return HResult::E_ACCESSDENIED,
            Err(_) => None,
        };
        let runtimes = target.map(|target| target.runtimes()).unwrap_or_default();
        let Some(runtime) = runtimes.into_iter().find(|one| one.version() == self.runtime.version()) else {
            return NO_RUNTIME;
        };
        let answer = runtime.ask_for_attach_by_name(NamedRequest {
            class: request.profiler,
            path: request.path.map(|path| String::from_utf16_lossy(&path)),
            milliseconds: request.milliseconds,
            client_data: request.client_data,
        });
        runtime.wait_for(&answer, request.milliseconds)
    }
}
