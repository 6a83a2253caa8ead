// SPDX-License-Identifier: Apache-2.0
package org.apache.gluten.backendsapi

/**
 * Stands for gluten-substrait/src/main/scala/org/apache/gluten/backendsapi/BackendsApiManager.scala
 * of apache/incubator-gluten, v1.6.0 (89718982).
 */
object BackendsApiManager {
  def getBackendName: String = "velox"
}
