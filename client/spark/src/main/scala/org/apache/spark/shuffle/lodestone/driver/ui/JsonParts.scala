// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.ui

import com.fasterxml.jackson.databind.JsonNode

/** The parts of a JSON value as Scala's collections, which differ from 2.12 to 2.13. */
private[ui] object JsonParts {
  def elements(array: JsonNode): Seq[JsonNode] =
    if (array.isArray) (0 until array.size).map(array.get(_)) else Nil

  /** Names and values, in their order. */
  def fields(node: JsonNode): Seq[(String, JsonNode)] = {
    val found = Seq.newBuilder[(String, JsonNode)]
    node.fieldNames.forEachRemaining { name =>
      found += name -> node.get(name)
      ()
    }
    found.result()
  }
}
