// SPDX-License-Identifier: Apache-2.0
package org.apache.gluten.runtime

import org.apache.gluten.libvelox.NativeCode

/**
 * Stands for gluten-arrow/src/main/scala/org/apache/gluten/runtime/Runtimes.scala of
 * apache/incubator-gluten, v1.6.0 (89718982). There a task has one runtime for each name.
 */
object Runtimes {
  def contextInstance(backendName: String, name: String): Runtime = {
    require(backendName.nonEmpty && name.nonEmpty)
    NativeCode.LOADED.get().runtime()
  }
}
