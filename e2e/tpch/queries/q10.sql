-- SPDX-License-Identifier: Apache-2.0
-- TPC-H Q10, returned item reporting: DATE = 1993-10-01. Ties at the limit are broken by the customer's key.
select c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) as revenue,
       c_acctbal, n_name, c_address, c_phone, c_comment
from customer
join orders on c_custkey = o_custkey
join lineitem on l_orderkey = o_orderkey
join nation on c_nationkey = n_nationkey
where o_orderdate >= date '1993-10-01'
  and o_orderdate < date '1994-01-01'
  and l_returnflag = 'R'
group by c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
order by revenue desc, c_custkey
limit 20
