// A shop with one of the problems that real teams have had, among other work that is as it should be.
//
// shop PROBLEM
// PROBLEM is `starvation` (requests wait for tasks on threads of the pool), `convoy` (all requests take one lock), `async` (an async
// method computes too much), `exceptions` (each order is parsed by exception), `churn` (each order is copied again and again),
// `events` (orders subscribe to an event and never leave it) or `cache` (a cache that nothing limits).
// Methods that are short here would be long in a real program: the compiler must not put them into their callers.
// `orders` answers the number of orders that were handled.
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

static class Shop
{
    static long orders;

    static void Main(string[] arguments)
    {
        Action start = arguments[0] switch
        {
            "starvation" => () => Each(8, new PriceService().Quote),
            "convoy" => () => Each(8, new Inventory().Reserve),
            "async" => () => Each(2, new Checkout().Handle),
            "exceptions" => () => Each(2, new Importer().Import),
            "churn" => () => Each(2, new Basket().Add),
            "events" => () => Each(1, new Tracking().Follow),
            "cache" => () => Each(1, new Catalogue().Describe),
            _ => throw new ArgumentException(arguments[0]),
        };
        start();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(line == "orders" ? Interlocked.Read(ref orders).ToString() : "unknown");
        Environment.Exit(0);
    }

    /// Handles orders on the pool, `count` at a time.
    static void Each(int count, Func<int, Task> handle)
    {
        for (int i = 0; i < count; i++)
        {
            int first = i;
            Task.Run(async () =>
            {
                for (int order = first; ; order += count)
                {
                    await handle(order);
                    Interlocked.Increment(ref orders);
                    await Task.Delay(1);
                }
            });
        }
    }
}

/// Asks another service for prices, and waits for it as one must not.
class PriceService
{
    [MethodImpl(MethodImplOptions.NoInlining)]
    public Task Quote(int order)
    {
        decimal price = Lines(order).Sum(PriceOf);
        return Task.FromResult(price);
    }

    static IEnumerable<int> Lines(int order) => Enumerable.Range(order, 3);

    [MethodImpl(MethodImplOptions.NoInlining)]
    decimal PriceOf(int article)
    {
        decimal net = Ask(article).Result;
        return net * 1.19m;
    }

    async Task<decimal> Ask(int article)
    {
        await Task.Delay(30);
        return article % 100;
    }
}

/// Counts articles under one lock, and computes under it.
class Inventory
{
    readonly object books = new object();
    readonly Dictionary<int, int> stock = new Dictionary<int, int>();

    [MethodImpl(MethodImplOptions.NoInlining)]
    public Task Reserve(int order)
    {
        lock (books)
        {
            stock.TryGetValue(order % 100, out int count);
            stock[order % 100] = count + Audit(order);
        }
        return Task.CompletedTask;
    }

    static int Audit(int order)
    {
        uint sum = (uint)order;
        for (int i = 0; i < 1_000_000; i++)
            sum = sum * 1664525 + 1013904223;
        return sum == 7 ? 0 : 1;
    }
}

/// Three async layers; the innermost scores fraud between two awaits.
class Checkout
{
    public async Task Handle(int order)
    {
        await Validate(order);
        await Task.Yield();
    }

    async Task Validate(int order)
    {
        await Task.Delay(1);
        await Score(order);
    }

    async Task<int> Score(int order)
    {
        await Task.Yield();
        int hits = 0;
        for (int i = 0; i < 4000; i++)
            hits += Similarity("customer " + order, "customer " + i);
        await Task.Yield();
        return hits;
    }

    /// Edit distance, the slow way.
    static int Similarity(string a, string b)
    {
        int[,] distance = new int[a.Length + 1, b.Length + 1];
        for (int i = 1; i <= a.Length; i++)
            for (int j = 1; j <= b.Length; j++)
                distance[i, j] = Math.Min(distance[i - 1, j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1),
                    1 + Math.Min(distance[i - 1, j], distance[i, j - 1]));
        return distance[a.Length, b.Length];
    }
}

/// Reads numbers of which most are none.
class Importer
{
    [MethodImpl(MethodImplOptions.NoInlining)]
    public Task Import(int order)
    {
        int sum = 0;
        for (int column = 0; column < 1000; column++)
            sum += Parse(column % 5 == 0 ? column.ToString() : "n/a");
        return Task.FromResult(sum);
    }

    static int Parse(string text)
    {
        try
        {
            return int.Parse(text);
        }
        catch (FormatException)
        {
            return 0;
        }
    }
}

/// Copies a basket for each article that is added.
class Basket
{
    [MethodImpl(MethodImplOptions.NoInlining)]
    public Task Add(int order)
    {
        string[] lines = new string[0];
        for (int i = 0; i < 3000; i++)
            lines = With(lines, "article " + i);
        return Task.FromResult(lines.Length);
    }

    static string[] With(string[] lines, string line) => lines.Concat(new[] { line }).ToArray();
}

/// Orders that want to know when prices change, for ever.
class Tracking
{
    sealed class Prices
    {
        public event EventHandler Changed;
        public void Raise() => Changed?.Invoke(this, EventArgs.Empty);
    }

    sealed class Order
    {
        readonly byte[] document = new byte[2000];
        public Order(Prices prices) => prices.Changed += Update;
        void Update(object sender, EventArgs arguments) => document[0]++;
    }

    static readonly Prices prices = new Prices();

    [MethodImpl(MethodImplOptions.NoInlining)]
    public Task Follow(int order)
    {
        new Order(prices);
        if (order % 1000 == 0)
            prices.Raise();
        return Task.CompletedTask;
    }
}

/// Descriptions by a key that never comes twice.
class Catalogue
{
    static readonly ConcurrentDictionary<string, string> descriptions = new ConcurrentDictionary<string, string>();

    [MethodImpl(MethodImplOptions.NoInlining)]
    public Task Describe(int order)
    {
        string key = "article " + order + " of " + DateTime.UtcNow.Ticks;
        string text = descriptions.GetOrAdd(key, Render);
        return Task.FromResult(text);
    }

    static string Render(string key)
    {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 40; i++)
            text.Append(key).Append(' ');
        return text.ToString();
    }
}
