// SPDX-License-Identifier: Apache-2.0
package org.apache.gluten.runtime;

/**
 * Stands for gluten-arrow/src/main/java/org/apache/gluten/runtime/RuntimeAware.java of
 * apache/incubator-gluten, v1.6.0 (89718982). Native code calls the method.
 */
public interface RuntimeAware {
  long rtHandle();
}
