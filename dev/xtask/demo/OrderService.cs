// The program that `cargo xtask demo` records: a small order service under load.
//
// Two workers take orders from a queue: they parse, price, sort, sign and file them. A third thread writes reports, and async code ships.
// It is meant to look like a service: layers that call one another, generics, lambdas, iterators, async methods, and threads that also wait.
// `count` answers the orders handled so far; it ends with its standard input, or on `quit`.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace OrderService
{
    static class Program
    {
        static void Main()
        {
            var shop = new Shop();
            shop.Open(workers: 2);
            Console.WriteLine("ready");
            for (string line; (line = Console.ReadLine()) != null && line != "quit";)
                Console.WriteLine(line == "count" ? shop.Handled.ToString(CultureInfo.InvariantCulture) : "unknown");
        }
    }

    /// Takes orders in, has them handled, reports.
    sealed class Shop
    {
        readonly Hatch<string[]> queue = new Hatch<string[]>(capacity: 16);
        readonly Ledger<Order> ledger = new Ledger<Order>(order => order.Total);
        readonly Warehouse warehouse = new Warehouse();
        long handled;

        public long Handled => Interlocked.Read(ref handled);

        public void Open(int workers)
        {
            Start("order intake", () => new Customers(seed: 42).OrderForEver(queue));
            for (int i = 1; i <= workers; i++)
                Start("order worker " + i, HandleOrders);
            Start("reports", WriteReports);
        }

        static void Start(string name, Action body)
        {
            new Thread(() => body()) { IsBackground = true, Name = name }.Start();
        }

        void HandleOrders()
        {
            var prices = new PriceList();
            Task shipping = Task.CompletedTask;
            while (true)
            {
                Order[] orders = queue.Take().Select(text => Handle(text, prices)).ToArray();
                shipping.Wait();
                shipping = warehouse.ShipAllAsync(orders);
            }
        }

        Order Handle(string text, PriceList prices)
        {
            Order order = new OrderParser(text).Parse();
            prices.Apply(order);
            order.SortLines();
            order.Signature = Signer.Sign(order);
            ledger.Add(order);
            Interlocked.Increment(ref handled);
            return order;
        }

        void WriteReports()
        {
            while (true)
            {
                Thread.Sleep(20);
                Report.Render(ledger.Best(50), ledger.Sum());
            }
        }
    }

    /// Where things are handed over: whoever is too early waits.
    sealed class Hatch<T>
    {
        readonly Queue<T> waiting = new Queue<T>();
        readonly int capacity;

        public Hatch(int capacity)
        {
            this.capacity = capacity;
        }

        public void Put(T thing)
        {
            lock (waiting)
            {
                while (waiting.Count == capacity)
                    Monitor.Wait(waiting);
                waiting.Enqueue(thing);
                Monitor.PulseAll(waiting);
            }
        }

        public T Take()
        {
            lock (waiting)
            {
                while (waiting.Count == 0)
                    Monitor.Wait(waiting);
                T thing = waiting.Dequeue();
                Monitor.PulseAll(waiting);
                return thing;
            }
        }
    }

    /// Customers who never have enough.
    sealed class Customers
    {
        static readonly string[] goods = { "anchor", "buoy", "compass", "dinghy", "ensign", "fender", "gaff", "halyard", "jib", "keel" };
        readonly Random random;

        public Customers(int seed)
        {
            random = new Random(seed);
        }

        public void OrderForEver(Hatch<string[]> queue)
        {
            // A stock of texts, handed over by the batch: customers must not become the bottleneck.
            string[][] stock = Enumerable.Range(1, 20).Select(WriteBatch).ToArray();
            for (int i = 0; ; i++)
                queue.Put(stock[i % stock.Length]);
        }

        string[] WriteBatch(int batch)
        {
            return Enumerable.Range(batch * 50, 50).Select(WriteOrder).ToArray();
        }

        string WriteOrder(int number)
        {
            var text = new StringBuilder();
            text.Append("{\"number\":").Append(number).Append(",\"customer\":\"customer ").Append(random.Next(100)).Append("\",\"lines\":[");
            int lines = random.Next(20, 60);
            for (int i = 0; i < lines; i++)
            {
                if (i > 0)
                    text.Append(',');
                text.Append("{\"item\":\"").Append(goods[random.Next(goods.Length)]).Append("\",\"count\":").Append(random.Next(1, 20));
                text.Append(",\"price\":").Append(random.Next(100, 100000)).Append('}');
            }
            return text.Append("]}").ToString();
        }
    }

    sealed class Order
    {
        public int Number;
        public string Customer;
        public List<OrderLine> Lines = new List<OrderLine>();
        public long Total;
        public string Signature;

        public void SortLines()
        {
            Lines.Sort(new ByItemThenPrice());
        }
    }

    sealed class OrderLine
    {
        public string Item;
        public int Count;
        public long Price;
        public long Discounted;
    }

    sealed class ByItemThenPrice : IComparer<OrderLine>
    {
        public int Compare(OrderLine left, OrderLine right)
        {
            int byItem = string.CompareOrdinal(left.Item, right.Item);
            return byItem != 0 ? byItem : right.Discounted.CompareTo(left.Discounted);
        }
    }

    /// Reads an order from text, token by token.
    sealed class OrderParser
    {
        readonly string text;
        int at;

        public OrderParser(string text)
        {
            this.text = text;
        }

        public Order Parse()
        {
            var order = new Order();
            ParseObject(name =>
            {
                switch (name)
                {
                    case "number": order.Number = (int)ParseNumber(); break;
                    case "customer": order.Customer = ParseString(); break;
                    case "lines": order.Lines.AddRange(ParseLines()); break;
                }
            });
            return order;
        }

        IEnumerable<OrderLine> ParseLines()
        {
            Expect('[');
            while (text[at] != ']')
            {
                yield return ParseLine();
                if (text[at] == ',')
                    at++;
            }
            Expect(']');
        }

        OrderLine ParseLine()
        {
            var line = new OrderLine();
            ParseObject(name =>
            {
                switch (name)
                {
                    case "item": line.Item = ParseString(); break;
                    case "count": line.Count = (int)ParseNumber(); break;
                    case "price": line.Price = ParseNumber(); break;
                }
            });
            return line;
        }

        void ParseObject(Action<string> member)
        {
            Expect('{');
            while (text[at] != '}')
            {
                string name = ParseString();
                Expect(':');
                member(name);
                if (text[at] == ',')
                    at++;
            }
            Expect('}');
        }

        string ParseString()
        {
            Expect('"');
            int start = at;
            while (text[at] != '"')
                at++;
            return text.Substring(start, at++ - start);
        }

        long ParseNumber()
        {
            long number = 0;
            while (char.IsDigit(text[at]))
                number = number * 10 + (text[at++] - '0');
            return number;
        }

        void Expect(char wanted)
        {
            if (text[at] != wanted)
                throw new FormatException($"`{wanted}` is missing at {at}");
            at++;
        }
    }

    /// Rules, each of which may lower a price.
    sealed class PriceList
    {
        readonly List<Func<Order, OrderLine, long, long>> rules;

        public PriceList()
        {
            rules = new List<Func<Order, OrderLine, long, long>>
            {
                (order, line, price) => line.Count >= 10 ? price * 95 / 100 : price,
                (order, line, price) => order.Lines.Count > 40 ? price * 98 / 100 : price,
                (order, line, price) => IsRegular(order.Customer) ? price * 97 / 100 : price,
            };
        }

        public void Apply(Order order)
        {
            foreach (OrderLine line in order.Lines)
                line.Discounted = rules.Aggregate(line.Price * line.Count, (price, rule) => rule(order, line, price));
            order.Total = order.Lines.Sum(line => line.Discounted);
        }

        static bool IsRegular(string customer)
        {
            uint hash = 2166136261;
            foreach (char letter in customer)
                hash = (hash ^ letter) * 16777619;
            return hash % 3 == 0;
        }
    }

    /// A checksum of its own: the framework's hashes want an OpenSSL that not every machine has.
    static class Signer
    {
        const ulong Prime = 0x9E3779B185EBCA87;

        public static string Sign(Order order)
        {
            byte[] text = Encoding.UTF8.GetBytes(order.Customer + order.Total);
            ulong digest = (ulong)order.Number;
            for (int round = 0; round < 40; round++)
                digest = Mix(text, digest + (ulong)round);
            return digest.ToString("x16", CultureInfo.InvariantCulture);
        }

        static ulong Mix(byte[] text, ulong digest)
        {
            foreach (byte letter in text)
            {
                digest = (digest ^ letter) * Prime;
                digest ^= digest >> 29;
            }
            return digest;
        }
    }

    /// Keeps the last entries and knows the greatest of them.
    sealed class Ledger<T>
    {
        const int Capacity = 256;
        readonly T[] entries = new T[Capacity];
        readonly Func<T, long> value;
        long added;

        public Ledger(Func<T, long> value)
        {
            this.value = value;
        }

        public void Add(T entry)
        {
            lock (entries)
                entries[added++ % Capacity] = entry;
        }

        public List<T> Best(int count)
        {
            return Snapshot().OrderByDescending(value).Take(count).ToList();
        }

        public long Sum()
        {
            long sum = 0;
            foreach (T entry in Snapshot())
                sum += value(entry);
            return sum;
        }

        T[] Snapshot()
        {
            lock (entries)
                return entries.Take((int)Math.Min(added, Capacity)).ToArray();
        }
    }

    /// Packs by the kind of goods, and waits for a larger box now and then.
    sealed class Warehouse
    {
        public async Task ShipAllAsync(Order[] orders)
        {
            // Whoever hands over a batch goes on with the next one.
            await Task.Yield();
            foreach (Order order in orders)
                await ShipAsync(order);
        }

        async Task<int> ShipAsync(Order order)
        {
            int parcels = 0;
            foreach (IGrouping<string, OrderLine> group in order.Lines.GroupBy(line => line.Item))
            {
                parcels += await PackAsync(group.Sum(line => line.Count));
            }
            return parcels;
        }

        static async Task<int> PackAsync(int pieces)
        {
            if (pieces > 400)
                await Task.Delay(1);
            return Permutations(pieces % 5).Count();
        }

        /// Every order in which so few pieces can be packed.
        static IEnumerable<int> Permutations(int pieces)
        {
            if (pieces == 0)
            {
                yield return 0;
                yield break;
            }
            for (int first = 0; first < pieces; first++)
                foreach (int rest in Permutations(pieces - 1))
                    yield return first * 10 + rest;
        }
    }

    static class Report
    {
        public static string Render(IEnumerable<Order> best, long sum)
        {
            var text = new StringBuilder();
            foreach (Order order in best)
                text.AppendFormat(CultureInfo.InvariantCulture, "{0,6} {1,-14} {2,12:N2} {3}\n", order.Number, order.Customer, order.Total / 100m, order.Signature);
            return text.AppendFormat(CultureInfo.InvariantCulture, "sum {0:N2}\n", sum / 100m).ToString();
        }
    }
}
