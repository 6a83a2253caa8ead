// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/** Removes all data of the application. The answer is [[Done]]. */
private[spark] final case class EndApplication(app: Application) extends Message {
  override def typeId: Int = EndApplication.typeId
  override private[wire] def write(out: WireWriter): Unit = app.write(out)
}

private[spark] object EndApplication extends Codec[EndApplication](78) {
  override private[wire] def read(in: WireReader): EndApplication =
    EndApplication(Application.read(in))
}
