-- SPDX-License-Identifier: Apache-2.0
-- TPC-H Q18, large volume customer: QUANTITY = 300. Ties at the limit are broken by the order's key.
with large as (
  select l_orderkey as large_key
  from lineitem
  group by l_orderkey
  having sum(l_quantity) > 300
)
select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) as quantity
from customer
join orders on c_custkey = o_custkey
join lineitem on o_orderkey = l_orderkey
where o_orderkey in (select large_key from large)
group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
order by o_totalprice desc, o_orderdate, o_orderkey
limit 100
