// SPDX-License-Identifier: Apache-2.0
//! Executors of applications for which the daemon is the external shuffle service: they register,
//! now and then with other directories, and others ask for their directories.

use lodestone_model::AppId;
use lodestone_wire::Message;
use lodestone_wire::spark::register::{GetLocalDirsForExecutors, RegisterExecutor};

use super::Clients;
use crate::dice::Dice;
use crate::network::{Network, Packet};

/// The application whose executors register. No simulated driver belongs to it, so it has no lease.
const APP: &str = "app-20261121-0002";
const EXECUTORS: usize = 4;

/// The parent of all of them.
pub const EXECUTOR_ROOT: &str = "/local";

/// Every directory that an executor may have.
pub const EXECUTOR_DIRS: [&str; 3] = [
    "/local/blockmgr-a",
    "/local/blockmgr-b",
    "/local/blockmgr-c",
];

impl Clients {
    pub(super) fn executor(&mut self, connection: u64, dice: &mut Dice, network: &mut Network) {
        let Ok(app) = AppId::new(APP) else {
            unreachable!("a plain name");
        };
        let exec_id = dice.below(EXECUTORS).to_string();
        let body = if dice.chance(40) {
            let local_dirs = dice.pick(&EXECUTOR_DIRS).into_iter();
            RegisterExecutor {
                app,
                exec_id,
                local_dirs: local_dirs.map(str::to_owned).collect(),
                sub_dirs_per_local_dir: 64,
                shuffle_manager: "org.apache.spark.shuffle.sort.SortShuffleManager".to_owned(),
            }
            .to_bytes()
        } else {
            ask_for(app, exec_id)
        };
        self.send(connection, Packet::Rpc(body), None, dice, network);
    }
}

fn ask_for(app: AppId, exec_id: String) -> bytes::Bytes {
    let exec_ids = vec![exec_id];
    GetLocalDirsForExecutors { app, exec_ids }.to_bytes()
}

/// Questions for every executor that there may be.
pub fn every_executor() -> Vec<bytes::Bytes> {
    let app = AppId::new(APP);
    let ask = |exec: usize| app.clone().map(|app| ask_for(app, exec.to_string()));
    (0..EXECUTORS).filter_map(|exec| ask(exec).ok()).collect()
}
