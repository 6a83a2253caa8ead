// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

private[spark] final case class Hello(protocolVersion: Int, clientName: String)
    extends Message(64)

private[spark] object Hello {
  val ProtocolVersion = 8
}

private[spark] final case class HelloReply(
    protocolVersion: Int,
    serverVersion: String,
    incarnation: Long,
    load: Load,
    zone: String = "")
    extends Message(HelloReply.typeId)

private[spark] object HelloReply extends Codec[HelloReply](65) {
  override private[wire] def read(in: WireReader): HelloReply =
    HelloReply(in.int(), in.string(), in.long(), Load.read(in), in.string())
}

private[spark] final case class Load(
    state: Byte,
    memoryUsed: Long,
    memoryLimit: Long,
    diskFree: Long,
    diskTotal: Long,
    connections: Int,
    shuffles: Int) {
  def serving: Boolean = state == Load.Serving

  /**
   * True if the service is drained: it ends when its remote shuffles are removed and its executors
   * are released.
   */
  def draining: Boolean = state == Load.Draining
}

private[spark] object Load {
  val Serving: Byte = 0
  val Draining: Byte = 1

  private[wire] def read(in: WireReader): Load =
    Load(in.byte(), in.long(), in.long(), in.long(), in.long(), in.int(), in.int())
}
