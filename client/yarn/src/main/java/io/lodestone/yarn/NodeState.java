// SPDX-License-Identifier: Apache-2.0
package io.lodestone.yarn;

import org.apache.hadoop.service.AbstractService;
import org.apache.hadoop.service.Service;
import org.apache.hadoop.service.ServiceStateChangeListener;

/**
 * Whether the NodeManager is about to stop. It ends its applications then, unless the next one is
 * to find them, and auxiliary services hear of that as of any end, before they stop themselves.
 */
final class NodeState implements ServiceStateChangeListener {

  /** YARN's service with all others of a node. Its class is not in the API that we compile with. */
  private static final String NODE_MANAGER =
      "org.apache.hadoop.yarn.server.nodemanager.NodeManager";

  private volatile Service nodeManager;

  /** Is to be called before the NodeManager is ready: its changes show who it is. */
  void follow() {
    AbstractService.registerGlobalListener(this);
  }

  void forget() {
    AbstractService.unregisterGlobalListener(this);
  }

  @Override
  public void stateChanged(Service service) {
    if (service.getClass().getName().equals(NODE_MANAGER)) {
      nodeManager = service;
    }
  }

  /** Returns true from the beginning of its end: a service is stopped before it stops others. */
  boolean isStopping() {
    Service known = nodeManager;
    return known != null && known.isInState(Service.STATE.STOPPED);
  }
}
